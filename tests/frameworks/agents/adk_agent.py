# SPDX-License-Identifier: Apache-2.0
"""Google's Agent Development Kit, with Gemini."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models import Gemini
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import (
    McpToolset,
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
)
from google.genai import types
from mcp import StdioServerParameters
from plan import HEADERS, SERVER, STDIO, TASK, URL


async def main():
    parameters = (
        StdioConnectionParams(server_params=StdioServerParameters(**SERVER), timeout=120)
        if STDIO
        else StreamableHTTPConnectionParams(url=SERVER["url"], headers=HEADERS, timeout=120)
    )
    tools = McpToolset(connection_params=parameters)
    agent = LlmAgent(
        name="fixer", model=Gemini(model="gemini-2.5-flash", base_url=URL), tools=[tools]
    )
    runner = InMemoryRunner(agent=agent, app_name="cubby")
    session = await runner.session_service.create_session(app_name="cubby", user_id="u")
    said = types.Content(role="user", parts=[types.Part(text=TASK)])
    async for event in runner.run_async(user_id="u", session_id=session.id, new_message=said):
        if event.is_final_response():
            print(event.content.parts[0].text)
    await tools.close()


asyncio.run(main())
