# SPDX-License-Identifier: Apache-2.0
"""mcp-use, with LangChain's OpenAI model."""

import asyncio

from langchain_openai import ChatOpenAI
from mcp_use import MCPAgent, MCPClient
from plan import HEADERS, SERVER, STDIO, TASK, URL


async def main():
    server = SERVER if STDIO else {"url": SERVER["url"], "headers": HEADERS}
    client = MCPClient.from_dict({"mcpServers": {"cubby": server}})
    agent = MCPAgent(
        llm=ChatOpenAI(model="gpt-5", base_url=URL + "/v1"), client=client, max_steps=30
    )
    print(await agent.run(TASK))
    await client.close_all_sessions()


asyncio.run(main())
