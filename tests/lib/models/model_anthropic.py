# SPDX-License-Identifier: Apache-2.0
"""Anthropic's wire format for the scripted model: messages."""

import json

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

FORBIDDEN_AT_TOP = ("oneOf", "allOf", "anyOf")


class Messages:
    """POST /v1/messages"""

    def __init__(self, path, body):
        self.body = body
        self.streamed = bool(body.get("stream"))

    def error(self, text):
        return {"type": "error", "error": {"type": "invalid_request_error", "message": text}}

    def turn(self):
        turn = Turn()
        for tool in self.body.get("tools") or []:
            if "input_schema" in tool:
                self.tool(turn, tool)
        calls = set()
        for number, message in enumerate(self.body["messages"]):
            content = message["content"]
            for part in [] if isinstance(content, str) else content:
                self.part(turn, calls, part, f"messages.{number}")
        return turn

    def tool(self, turn, tool):
        check_name(tool["name"])
        schema = tool["input_schema"]
        check_schema(schema, f"tools {tool['name']}")
        for keyword in FORBIDDEN_AT_TOP:
            if keyword in schema:
                raise BadRequest(
                    f"tools {tool['name']}: input_schema does not support {keyword} at "
                    "the top level"
                )
        turn.tools.append(Tool(tool["name"], schema))

    def part(self, turn, calls, part, where):
        if part["type"] == "tool_use":
            calls.add(part["id"])
        elif part["type"] == "tool_result":
            if part["tool_use_id"] not in calls:
                raise BadRequest(f"{where}: unexpected tool_use_id {part['tool_use_id']}")
            text, images = self.result(part.get("content", ""), where)
            turn.images += images
            turn.results.append(Result(text, images, bool(part.get("is_error"))))
        elif part["type"] in ("image", "document"):
            self.source(part, where)
            turn.images += part["type"] == "image"

    def result(self, content, where):
        """(text, number of images)"""
        if isinstance(content, str):
            return content, 0
        texts, images = [], 0
        for part in content:
            if part["type"] == "text":
                texts.append(part["text"])
            elif part["type"] in ("image", "document"):
                self.source(part, where)
                images += part["type"] == "image"
            elif part["type"] != "tool_reference":
                raise BadRequest(f"{where}: tool_result with a block of type {part['type']}")
        return "\n".join(texts), images

    def source(self, part, where):
        source = part["source"]
        if source["type"] == "base64" and part["type"] == "image":
            check_image(source["data"], source["media_type"], where)
        elif source["type"] == "url":
            check_url(source["url"], where)

    def message(self, content, stop):
        return {
            "id": f"msg_{next(NUMBERS)}",
            "type": "message",
            "role": "assistant",
            "model": self.body["model"],
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }

    def block(self, reply):
        if isinstance(reply, Call):
            return {
                "type": "tool_use",
                "id": f"toolu_{reply.number:08d}",
                "name": reply.name,
                "input": reply.arguments,
            }
        return {"type": "text", "text": reply.text}

    def stop(self, reply):
        return "tool_use" if isinstance(reply, Call) else "end_turn"

    def answer(self, reply):
        return self.message([self.block(reply)], self.stop(reply))

    def events(self, reply):
        for event in self.steps(reply):
            yield event["type"], event

    def steps(self, reply):
        block = self.block(reply)
        if isinstance(reply, Call):
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        else:
            empty = {**block, "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        yield {"type": "message_start", "message": self.message([], None)}
        yield {"type": "content_block_start", "index": 0, "content_block": empty}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": self.stop(reply), "stop_sequence": None},
            "usage": {"output_tokens": 10},
        }
        yield {"type": "message_stop"}
