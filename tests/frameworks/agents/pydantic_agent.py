# SPDX-License-Identifier: Apache-2.0
"""Pydantic AI, with the models of OpenAI, Anthropic and Google."""

import asyncio

from fastmcp.client.transports import StdioTransport
from plan import HEADERS, SERVER, STDIO, TASK, URL, WIRE
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset


def model():
    if WIRE == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(
            "claude-sonnet-4-5", provider=AnthropicProvider(base_url=URL, api_key="none")
        )
    if WIRE == "gemini":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(
            "gemini-2.5-flash", provider=GoogleProvider(base_url=URL, api_key="none")
        )
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIChatModel if WIRE == "chat" else OpenAIResponsesModel
    return kind("gpt-5", provider=OpenAIProvider(base_url=URL + "/v1", api_key="none"))


async def main():
    tools = (
        MCPToolset(StdioTransport(**SERVER))
        if STDIO
        else MCPToolset(SERVER["url"], headers=HEADERS)
    )
    agent = Agent(model(), toolsets=[tools], retries=3)
    async with agent:
        print((await agent.run(TASK)).output)


asyncio.run(main())
