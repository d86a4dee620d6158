# SPDX-License-Identifier: Apache-2.0
"""An agent for the scenario: a loop of thinking and acting around any OpenAI-compatible model.

The model gets Cubby's tools as functions, and the text of each result. The loop ends when the model
calls no tool. OPENAI_BASE_URL and OPENAI_API_KEY name the endpoint, CUBBY_MODEL the model.
"""

import asyncio
import json
import os
import urllib.error
import urllib.request

MOST_TURNS = 40
ANSWER_SECONDS = 600
# What a model needs to mend a program; the descriptions of the others would only cost.
TOOLS = ("run_command", "read_file", "write_file", "edit_file", "list_files", "search_files")
RULES = "You fix bugs in a sandbox with the tools. Do not change tests. When all tests pass, say so."


class NoAnswer(Exception):
    """The model's endpoint refused a request, or the model did not come to an end."""


class Model:
    """The endpoint of a model, which answers a conversation."""

    def __init__(self):
        self.url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
        self.key = os.environ.get("OPENAI_API_KEY", "none")
        self.name = os.environ.get("CUBBY_MODEL", "gpt-5")

    def ask(self, messages, tools):
        """The next message of the model. This blocks."""
        body = {"model": self.name, "messages": messages, "tools": tools}
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
                return json.load(answer)["choices"][0]["message"]
        except urllib.error.HTTPError as e:
            raise NoAnswer(f"{self.url}: {e.code} {e.read()[:500]!r}") from e
        except urllib.error.URLError as e:
            raise NoAnswer(f"{self.url}: {e.reason}: set OPENAI_BASE_URL to the model's API") from e


async def functions(agent):
    """Cubby's tools as the API takes them."""
    listed = (await agent.session.list_tools()).tools
    return [{"type": "function", "function": {"name": tool.name, "description": tool.description,
                                              "parameters": tool.inputSchema}}
            for tool in listed if tool.name in TOOLS]


async def act(agent, call):
    """Make the call that the model asks for. Return the message with its result, or its error."""
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError as e:
        text = f"the arguments are not JSON: {e}"
    else:
        result = await agent.try_call(function["name"], **arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
    return {"role": "tool", "tool_call_id": call["id"], "content": text}


async def solve(agent, task):
    """Let the model do a task. Return its last words and the number of calls that it made."""
    model, tools, calls = Model(), await functions(agent), 0
    messages = [{"role": "system", "content": RULES}, {"role": "user", "content": task}]
    for _ in range(MOST_TURNS):
        said = await asyncio.to_thread(model.ask, messages, tools)
        messages.append({k: v for k, v in said.items() if k in ("role", "content", "tool_calls")})
        if not said.get("tool_calls"):
            return said["content"], calls
        for call in said["tool_calls"]:
            messages.append(await act(agent, call))
            calls += 1
    raise NoAnswer(f"the model has not come to an end in {MOST_TURNS} turns")
