# SPDX-License-Identifier: Apache-2.0
"""The OpenAI Agents SDK, with both of OpenAI's APIs, and with its strict schemas."""

import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp
from openai import AsyncOpenAI
from plan import HEADERS, PLAN, SERVER, STDIO, TASK, URL, WIRE


async def main():
    set_tracing_disabled(True)
    kind = OpenAIChatCompletionsModel if WIRE == "chat" else OpenAIResponsesModel
    model = kind(model="gpt-5", openai_client=AsyncOpenAI(base_url=URL + "/v1"))
    server = (
        MCPServerStdio(params=SERVER, client_session_timeout_seconds=120)
        if STDIO
        else MCPServerStreamableHttp(
            params={"url": SERVER["url"], "headers": HEADERS}, client_session_timeout_seconds=120
        )
    )
    async with server:
        agent = Agent(
            name="fixer",
            model=model,
            mcp_servers=[server],
            mcp_config={"convert_schemas_to_strict": bool(PLAN.get("strict"))},
        )
        print((await Runner.run(agent, TASK, max_turns=30)).final_output)


asyncio.run(main())
