# SPDX-License-Identifier: Apache-2.0
"""Agno, with both of OpenAI's APIs."""

import asyncio

from agno.agent import Agent
from agno.models.openai import OpenAIChat, OpenAIResponses
from agno.tools.mcp import MCPTools
from mcp import StdioServerParameters
from plan import HEADERS, SERVER, STDIO, TASK, URL, WIRE


async def main():
    kind = OpenAIChat if WIRE == "chat" else OpenAIResponses
    tools = (
        MCPTools(server_params=StdioServerParameters(**SERVER), timeout_seconds=120)
        if STDIO
        else MCPTools(
            url=SERVER["url"], transport="streamable-http", headers=HEADERS, timeout_seconds=120
        )
    )
    async with tools:
        agent = Agent(model=kind(id="gpt-5", base_url=URL + "/v1"), tools=[tools], telemetry=False)
        print((await agent.arun(TASK)).content)


asyncio.run(main())
