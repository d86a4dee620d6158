# SPDX-License-Identifier: Apache-2.0
"""LlamaIndex, with an OpenAI-compatible model."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from plan import HEADERS, SERVER, STDIO, TASK, URL


async def main():
    client = (
        BasicMCPClient(SERVER["command"], args=SERVER["args"], env=SERVER["env"], timeout=120)
        if STDIO
        else BasicMCPClient(SERVER["url"], headers=HEADERS, timeout=120)
    )
    model = OpenAILike(
        model="gpt-5",
        api_base=URL + "/v1",
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
    )
    agent = FunctionAgent(tools=await McpToolSpec(client=client).to_tool_list_async(), llm=model)
    print(await agent.run(TASK, max_iterations=40))


asyncio.run(main())
