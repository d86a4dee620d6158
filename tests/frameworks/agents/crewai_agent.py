# SPDX-License-Identifier: Apache-2.0
"""CrewAI, with an OpenAI-compatible model."""

from crewai import LLM, Agent, Crew, Task
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters
from plan import HEADERS, SERVER, STDIO, TASK, URL

parameters = (
    StdioServerParameters(**SERVER)
    if STDIO
    else {"url": SERVER["url"], "transport": "streamable-http", "headers": HEADERS}
)
with MCPServerAdapter(parameters, connect_timeout=60) as tools:
    model = LLM(model="openai/gpt-5", base_url=URL + "/v1", api_key="none")
    agent = Agent(
        role="fixer", goal="fix bugs", backstory="an engineer", tools=tools, llm=model, max_iter=30
    )
    task = Task(description=TASK, expected_output="a sentence", agent=agent)
    print(Crew(agents=[agent], tasks=[task], tracing=False).kickoff())
