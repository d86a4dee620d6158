# SPDX-License-Identifier: Apache-2.0
"""Strands Agents, with the OpenAI model."""

from mcp import StdioServerParameters, stdio_client
from plan import HEADERS, SERVER, STDIO, TASK, URL
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

client = (
    MCPClient(lambda: stdio_client(StdioServerParameters(**SERVER)))
    if STDIO
    else MCPClient(url=SERVER["url"], headers=HEADERS)
)
with client:
    model = OpenAIModel(model_id="gpt-5", client_args={"base_url": URL + "/v1", "api_key": "none"})
    print(Agent(model=model, tools=client.list_tools_sync(), callback_handler=None)(TASK))
