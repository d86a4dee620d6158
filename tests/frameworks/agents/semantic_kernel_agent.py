# SPDX-License-Identifier: Apache-2.0
"""Semantic Kernel's ChatCompletionAgent, with the OpenAI connector."""

import asyncio

from openai import AsyncOpenAI
from plan import HEADERS, SERVER, STDIO, TASK, URL
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.connectors.mcp import MCPStdioPlugin, MCPStreamableHttpPlugin


async def main():
    plugin = (
        MCPStdioPlugin(name="cubby", **SERVER)
        if STDIO
        else MCPStreamableHttpPlugin(name="cubby", url=SERVER["url"], headers=HEADERS)
    )
    model = OpenAIChatCompletion(
        ai_model_id="gpt-5", async_client=AsyncOpenAI(base_url=URL + "/v1")
    )
    async with plugin:
        agent = ChatCompletionAgent(
            service=model,
            name="fixer",
            plugins=[plugin],
            function_choice_behavior=FunctionChoiceBehavior.Auto(maximum_auto_invoke_attempts=30),
        )
        print(await agent.get_response(messages=TASK))


asyncio.run(main())
