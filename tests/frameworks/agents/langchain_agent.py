# SPDX-License-Identifier: Apache-2.0
"""LangChain and deepagents, with the model adapters of OpenAI, Anthropic and Google."""

import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient
from plan import HEADERS, PLAN, SERVER, STDIO, TASK, URL, WIRE


def model():
    if WIRE == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model="claude-sonnet-4-5", base_url=URL)
    if WIRE == "gemini":
        from langchain_google_genai import ChatGoogleGenerativeAI

        return ChatGoogleGenerativeAI(model="gemini-2.5-flash", base_url=URL)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-5", base_url=URL + "/v1", use_responses_api=WIRE == "responses")


def agent(tools):
    if PLAN.get("deepagents"):
        from deepagents import create_deep_agent

        return create_deep_agent(model=model(), tools=tools)
    from langchain.agents import create_agent

    return create_agent(model(), tools)


async def main():
    connection = (
        {"transport": "stdio", **SERVER}
        if STDIO
        else {"transport": "streamable_http", "url": SERVER["url"], "headers": HEADERS}
    )
    client = MultiServerMCPClient({"cubby": connection})
    done = await agent(await client.get_tools()).ainvoke(
        {"messages": [{"role": "user", "content": TASK}]}, {"recursion_limit": 60}
    )
    print(done["messages"][-1].text)


asyncio.run(main())
