# SPDX-License-Identifier: Apache-2.0
"""smolagents' ToolCallingAgent, with an OpenAI-compatible model."""

from mcp import StdioServerParameters
from plan import HEADERS, SERVER, STDIO, TASK, URL
from smolagents import MCPClient, OpenAIModel, ToolCallingAgent

parameters = (
    StdioServerParameters(**SERVER)
    if STDIO
    else {"url": SERVER["url"], "transport": "streamable-http", "headers": HEADERS}
)
with MCPClient(parameters, structured_output=False) as tools:
    model = OpenAIModel(model_id="gpt-5", api_base=URL + "/v1", api_key="none")
    print(ToolCallingAgent(tools=tools, model=model, max_steps=30, verbosity_level=0).run(TASK))
