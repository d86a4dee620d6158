# SPDX-License-Identifier: Apache-2.0
"""Gemini's wire format for the scripted model: generateContent."""

import json

from model_turn import (
    BadRequest,
    Call,
    Result,
    Tool,
    Turn,
    check_image,
    check_name,
    check_schema,
    check_url,
)

# The members of the API's Schema; a request with another one is refused. JSON Schema goes into
# parametersJsonSchema.
MEMBERS = {
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
}


def check_members(schema, where):
    unknown = set(schema) - MEMBERS
    if unknown:
        raise BadRequest(
            f"Invalid JSON payload received. Unknown name {sorted(unknown)} at '{where}'"
        )
    for name, one in schema.get("properties", {}).items():
        check_members(one, f"{where}.{name}")
    if "items" in schema:
        check_members(schema["items"], f"{where}.items")
    for one in schema.get("anyOf", []):
        check_members(one, where)


def lower_types(schema):
    """The same schema with the types of JSON Schema (object, not OBJECT)."""
    if isinstance(schema, dict):
        return {
            k: v.lower() if k == "type" and isinstance(v, str) else lower_types(v)
            for k, v in schema.items()
        }
    return [lower_types(one) for one in schema] if isinstance(schema, list) else schema


class Generate:
    """POST /v1beta/models/NAME:generateContent or :streamGenerateContent?alt=sse"""

    def __init__(self, path, body):
        self.body = body
        self.streamed = ":streamGenerateContent" in path

    def error(self, text):
        return {"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}}

    def turn(self):
        turn = Turn()
        for group in self.body.get("tools") or []:
            group = group.get("functionDeclarations", group.get("function_declarations", []))
            for one in group:
                self.tool(turn, one)
        waiting = 0
        for number, content in enumerate(self.body["contents"]):
            for part in content["parts"]:
                waiting = self.part(turn, part, waiting, f"contents[{number}]")
        return turn

    def tool(self, turn, one):
        check_name(one["name"])
        schema = one.get("parametersJsonSchema")
        if schema is None:
            schema = one.get("parameters") or {"type": "OBJECT", "properties": {}}
            check_members(schema, f"function_declarations {one['name']}")
        schema = lower_types(schema)
        check_schema(schema, one["name"])
        turn.tools.append(Tool(one["name"], schema))

    def part(self, turn, part, waiting, where):
        """How many calls have no result yet, after this part."""
        if "functionCall" in part:
            return waiting + 1
        if "functionResponse" in part:
            if not waiting:
                raise BadRequest(f"{where}: a function response without a function call")
            response = part["functionResponse"]
            images = sum(self.image(one, where) for one in response.get("parts", []))
            turn.images += images
            turn.results.append(Result(self.text(response["response"]), images))
            return waiting - 1
        turn.images += self.image(part, where)
        return waiting

    def text(self, response):
        """The JSON of the response, and its strings as they are."""
        strings = []

        def gather(value):
            if isinstance(value, str):
                strings.append(value)
            elif isinstance(value, dict):
                list(map(gather, value.values()))
            elif isinstance(value, list):
                list(map(gather, value))

        gather(response)
        return json.dumps(response) + "\n" + "\n".join(strings)

    def image(self, part, where):
        if "inlineData" in part:
            data = part["inlineData"]  # protobuf's JSON takes either way of writing a name
            check_image(
                data["data"].replace("-", "+").replace("_", "/"),
                data.get("mimeType") or data["mime_type"],
                where,
            )
            return 1
        if "fileData" in part:
            check_url(part["fileData"]["fileUri"], where)
        return 0

    def answer(self, reply):
        part = (
            {"functionCall": {"name": reply.name, "args": reply.arguments, "id": reply.id}}
            if isinstance(reply, Call)
            else {"text": reply.text}
        )
        return {
            "candidates": [
                {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
            ],
            "usageMetadata": {
                "promptTokenCount": 10,
                "candidatesTokenCount": 10,
                "totalTokenCount": 20,
            },
            "modelVersion": "stub",
            "responseId": "r",
        }

    def events(self, reply):
        yield None, self.answer(reply)
