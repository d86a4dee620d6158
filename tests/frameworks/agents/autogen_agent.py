# SPDX-License-Identifier: Apache-2.0
"""AutoGen's AssistantAgent, with the OpenAI client."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams, StreamableHttpServerParams
from plan import HEADERS, SERVER, STDIO, TASK, URL


async def main():
    model = OpenAIChatCompletionClient(
        model="gpt-5",
        base_url=URL + "/v1",
        model_info={
            "vision": True,
            "function_calling": True,
            "json_output": True,
            "family": "unknown",
            "structured_output": True,
        },
    )
    parameters = (
        StdioServerParams(**SERVER, read_timeout_seconds=120)
        if STDIO
        else StreamableHttpServerParams(url=SERVER["url"], headers=HEADERS)
    )
    async with McpWorkbench(parameters) as workbench:
        agent = AssistantAgent(
            "fixer", model_client=model, workbench=workbench, max_tool_iterations=30
        )
        print((await agent.run(task=TASK)).messages[-1].content)


asyncio.run(main())
