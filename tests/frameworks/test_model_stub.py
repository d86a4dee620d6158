# SPDX-License-Identifier: Apache-2.0
"""The scripted model refuses what the real APIs refuse: without this, a green table says little."""

import json
import urllib.error
import urllib.request

import pytest
from model_stub import Call, Stub

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
IMAGE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUg" * 2
CHAT_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}


def script():
    yield Call("f", {"a": "x"})
    return "end"


def post(path, body):
    """(status, answer) of a request to a new model."""
    with Stub(script()) as stub:
        request = urllib.request.Request(
            stub.url + path, json.dumps({"model": "m", **body}).encode()
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as e:
            return e.code, json.load(e)


def chat(messages, schema=SCHEMA, **function):
    tool = {"type": "function", "function": {"name": "f", "parameters": schema, **function}}
    return post("/v1/chat/completions", {"messages": messages, "tools": [tool]})


def refused(answer, text):
    status, body = answer
    assert status == 400 and text in str(body)


def test_a_call_is_made():
    status, body = chat([{"role": "user", "content": "go"}])
    assert status == 200
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"a": "x"}'


def test_an_image_in_a_tools_message():
    content = [{"type": "image_url", "image_url": {"url": IMAGE}}]
    refused(
        chat([CHAT_CALL, {"role": "tool", "tool_call_id": "c", "content": content}]), "only allowed"
    )


def test_a_file_in_a_tools_message():
    content = [{"type": "file", "file": {"file_data": "sandbox://x"}}]
    refused(
        chat([CHAT_CALL, {"role": "tool", "tool_call_id": "c", "content": content}]), "content type"
    )


def test_a_result_without_a_call():
    refused(chat([{"role": "tool", "tool_call_id": "c", "content": "x"}]), "preceding")


@pytest.mark.parametrize(
    "schema,text",
    [
        ({**SCHEMA, "required": []}, "missing"),
        ({**SCHEMA, "additionalProperties": True}, "additionalProperties"),
        ({**SCHEMA, "properties": {"a": {"type": "string", "minLength": 1}}}, "'minLength' is not"),
        ({**SCHEMA, "properties": {"a": {"type": "string", "default": ""}}}, "'default' is not"),
        ({**SCHEMA, "properties": {"a": {"type": "string", "format": "uri"}}}, "valid format"),
        ({**SCHEMA, "properties": {"a": {"anyOf": [{"type": "string", "maxLength": 1}]}}}, "max"),
        ({**SCHEMA, "anyOf": []}, "anyOf at its root"),
        ({**SCHEMA, "properties": {"a": {"type": "string", "enum": ["x" * 200000]}}}, "too large"),
    ],
)
def test_strict_schemas(schema, text):
    refused(chat([{"role": "user", "content": "go"}], schema, strict=True), text)


def test_a_url_that_nobody_can_fetch():
    item = {
        "type": "function_call_output",
        "call_id": "c",
        "output": [{"type": "input_file", "file_url": "sandbox://x/y"}],
    }
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    refused(post("/v1/responses", {"input": [call, item]}), "cannot be fetched")
    source = {"type": "document", "source": {"type": "url", "url": "sandbox://x/y"}}
    refused(
        post("/v1/messages", {"messages": [{"role": "user", "content": [source]}]}),
        "cannot be fetched",
    )


def test_a_schema_that_gemini_does_not_know():
    declared = {"name": "f", "parameters": {**SCHEMA, "additionalProperties": False}}
    body = {"contents": [], "tools": [{"functionDeclarations": [declared]}]}
    refused(post("/v1beta/models/m:generateContent", body), "Unknown name")
