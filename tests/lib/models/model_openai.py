# SPDX-License-Identifier: Apache-2.0
"""OpenAI's wire formats for the scripted model: chat completions and responses."""

import json
import re

from model_turn import (
    NUMBERS,
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

USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
# What strict mode's schemas may not have (Structured outputs, "Supported schemas"). The README of
# OpenAI's Node library says of `default` and the lengths of strings that the API can refuse them;
# Azure's refuses each `default`.
NOT_STRICT = (
    "default",
    "minLength",
    "maxLength",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "minProperties",
    "maxProperties",
    "uniqueItems",
    "contains",
)
FORMATS = (
    "date-time",
    "time",
    "date",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "uuid",
)
STRICT_PROPERTIES_MAX = 5000
STRICT_CHARACTERS_MAX = 120000


def check_strict(schema, where, depth=0):
    """Rules of strict mode: each property is required, and no other is allowed."""
    for keyword in NOT_STRICT:
        if keyword in schema:
            raise BadRequest(
                f"Invalid schema for function: in {where}, '{keyword}' is not permitted"
            )
    if schema.get("format", FORMATS[0]) not in FORMATS:
        raise BadRequest(
            f"Invalid schema for function: in {where}, '{schema['format']}' is not a valid format"
        )
    if depth > 10:
        raise BadRequest(f"Invalid schema for function: {where} is nested too deeply")
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise BadRequest(
                f"Invalid schema for function: in {where}, 'additionalProperties' is "
                "required to be supplied and to be false"
            )
        missing = set(schema.get("properties", {})) - set(schema.get("required", []))
        if missing:
            raise BadRequest(
                f"Invalid schema for function: in {where}, 'required' is missing {missing}"
            )
    for name, one in schema.get("properties", {}).items():
        check_strict(one, f"{where}.{name}", depth + 1)
    for one in schema.get("anyOf", []):
        check_strict(one, where, depth + 1)
    if isinstance(schema.get("items"), dict):
        check_strict(schema["items"], f"{where}[]", depth + 1)


def names_in(schema):
    """The names of properties and the values of enums in a schema, as strict mode counts them."""
    for name, one in schema.get("properties", {}).items():
        yield name
        yield from names_in(one)
    for one in (*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])):
        yield from names_in(one)
    yield from map(str, schema.get("enum", []))


def check_strict_size(schema, where):
    names = list(names_in(schema))
    if len(names) > STRICT_PROPERTIES_MAX or sum(map(len, names)) > STRICT_CHARACTERS_MAX:
        raise BadRequest(f"Invalid schema for function: {where} is too large")
    if "anyOf" in schema:
        raise BadRequest(f"Invalid schema for function: {where} must not have anyOf at its root")


def tool_of(function, where):
    check_name(function["name"])
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    check_schema(schema, f"{where} {function['name']}")
    strict = bool(function.get("strict"))
    if strict:
        check_strict_size(schema, function["name"])
        check_strict(schema, function["name"])
    return Tool(function["name"], schema, strict)


def check_data_url(url, where):
    check_url(url, where)
    match = re.match(r"data:([^;]+);base64,(.*)", url, re.DOTALL)
    if match:
        check_image(match[2], match[1], where)


class OpenAi:
    def __init__(self, path, body):
        self.body = body
        self.streamed = bool(body.get("stream"))
        self.id = f"resp_{next(NUMBERS)}"

    def error(self, text):
        return {
            "error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}
        }


class Chat(OpenAi):
    """POST /chat/completions"""

    def turn(self):
        turn = Turn()
        for tool in self.body.get("tools") or []:
            turn.tools.append(tool_of(tool["function"], "tools"))
        calls = set()
        for number, message in enumerate(self.body["messages"]):
            self.message(turn, calls, message, f"messages[{number}]")
        return turn

    def message(self, turn, calls, message, where):
        text, images = self.content(message, where)
        role = message["role"]
        turn.images += images
        for call in message.get("tool_calls") or []:
            json.loads(call["function"]["arguments"])
            calls.add(call["id"])
        if role == "tool":
            if message["tool_call_id"] not in calls:
                raise BadRequest(f"{where}: 'tool' must be a response to a preceding 'tool_calls'")
            turn.results.append(Result(text, images))
        elif role == "user" and text.startswith("Observation:"):
            turn.results.append(Result(text, images))  # agents that write calls and results as text

    def content(self, message, where):
        """(text, number of images)"""
        content = message.get("content")
        if content is None:
            if message["role"] not in ("assistant",):
                raise BadRequest(f"{where}: content is null")
            return "", 0
        if isinstance(content, str):
            return content, 0
        texts, images = [], 0
        for part in content:
            if part["type"] in ("text", "refusal"):
                texts.append(part.get("text", ""))
            elif part["type"] == "image_url":
                if message["role"] != "user":
                    raise BadRequest(
                        f"{where}: Image URLs are only allowed for messages with role "
                        f"'user', but this message with role '{message['role']}' "
                        "contains an image URL"
                    )
                check_data_url(part["image_url"]["url"], where)
                images += 1
            else:
                raise BadRequest(f"{where}: invalid content type {part['type']!r}")
        return "\n".join(texts), images

    def finish(self, reply):
        return "tool_calls" if isinstance(reply, Call) else "stop"

    def delta(self, reply):
        if not isinstance(reply, Call):
            return {"role": "assistant", "content": reply.text}
        function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
        return {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": reply.id, "type": "function", "function": function}],
        }

    def head(self, kind):
        return {
            "id": f"chatcmpl-{next(NUMBERS)}",
            "object": kind,
            "created": 1,
            "model": self.body["model"],
        }

    def answer(self, reply):
        choice = {
            "index": 0,
            "message": self.delta(reply),
            "finish_reason": self.finish(reply),
            "logprobs": None,
        }
        return {**self.head("chat.completion"), "choices": [choice], "usage": USAGE}

    def events(self, reply):
        head = self.head("chat.completion.chunk")  # one id for all of them
        delta = self.delta(reply)
        for index, call in enumerate(delta.get("tool_calls", [])):
            call["index"] = index
        yield None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        end = {"index": 0, "delta": {}, "finish_reason": self.finish(reply)}
        yield None, {**head, "choices": [end]}
        yield None, {**head, "choices": [], "usage": USAGE}
        yield None, "[DONE]"


class Responses(OpenAi):
    """POST /responses. A request has the whole conversation, or names the response before it."""

    stored = {}  # the conversation up to each response, by the response's id

    def turn(self):
        turn = Turn()
        for tool in self.body.get("tools") or []:
            self.tool(turn, tool)
        items = self.body["input"]
        if isinstance(items, str):
            items = [{"role": "user", "content": items}]
        previous = self.body.get("previous_response_id")
        if previous and previous not in self.stored:
            raise BadRequest(f"Previous response with id '{previous}' not found.")
        self.items = items = [*self.stored.get(previous, []), *items]
        calls = set()
        for number, item in enumerate(items):
            where = f"input[{number}]"
            kind = item.get("type", "message")
            if kind in ("function_call", "custom_tool_call"):
                calls.add(item["call_id"])
            elif kind in ("function_call_output", "custom_tool_call_output"):
                if item["call_id"] not in calls:
                    raise BadRequest(f"{where}: no tool call found for {item['call_id']}")
                text, images = self.parts(item["output"], where)
                turn.images += images
                turn.results.append(Result(text, images))
            elif kind == "message":
                turn.images += self.parts(item["content"], where)[1]
        return turn

    def tool(self, turn, tool, namespace=None):
        if tool["type"] == "namespace":
            for one in tool.get("tools", []):
                self.tool(turn, one, tool["name"])
        elif tool["type"] == "function":
            turn.tools.append(tool_of(tool, "tools"))
            turn.tools[-1].namespace = namespace

    def parts(self, content, where):
        """(text, number of images)"""
        if isinstance(content, str):
            return content, 0
        texts, images = [], 0
        for part in content:
            if part["type"] in ("input_text", "output_text"):
                texts.append(part["text"])
            elif part["type"] == "input_image":
                check_data_url(part["image_url"], where)
                images += 1
            elif part["type"] == "input_file":
                check_url(part.get("file_url", "https://"), where)
                texts.append(json.dumps(part))
            else:
                raise BadRequest(f"{where}: invalid content type {part['type']!r}")
        return "\n".join(texts), images

    def item(self, reply):
        if isinstance(reply, Call):
            group = {"namespace": reply.namespace} if reply.namespace else {}
            return {
                "type": "function_call",
                "id": f"fc_{reply.number}",
                "call_id": reply.id,
                "name": reply.name,
                "arguments": json.dumps(reply.arguments),
                "status": "completed",
                **group,
            }
        return {
            "type": "message",
            "id": "msg" + self.id,
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": reply.text, "annotations": []}],
        }

    def response(self, output, status):
        self.stored[self.id] = [*self.items, *output]
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 10,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 20,
        }
        return {
            "id": self.id,
            "object": "response",
            "created_at": 1,
            "status": status,
            "model": self.body["model"],
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "temperature": 1.0,
            "top_p": 1.0,
            "usage": usage if status == "completed" else None,
        }

    def answer(self, reply):
        return self.response([self.item(reply)], "completed")

    def events(self, reply):
        for number, event in enumerate(self.steps(reply)):
            yield event["type"], {**event, "sequence_number": number}

    def steps(self, reply):
        item = self.item(reply)
        at = {"item_id": item["id"], "output_index": 0}
        yield {"type": "response.created", "response": self.response([], "in_progress")}
        if isinstance(reply, Call):
            begun = {**item, "arguments": "", "status": "in_progress"}
            yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
            text = item["arguments"]
            yield {"type": "response.function_call_arguments.delta", **at, "delta": text}
            yield {
                "type": "response.function_call_arguments.done",
                **at,
                "name": item["name"],
                "arguments": text,
            }
        else:
            begun = {**item, "content": [], "status": "in_progress"}
            part = item["content"][0]
            at["content_index"] = 0
            yield {"type": "response.output_item.added", "output_index": 0, "item": begun}
            yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
            yield {"type": "response.output_text.delta", **at, "delta": reply.text, "logprobs": []}
            yield {"type": "response.output_text.done", **at, "text": reply.text, "logprobs": []}
            yield {"type": "response.content_part.done", **at, "part": part}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": self.answer(reply)}
