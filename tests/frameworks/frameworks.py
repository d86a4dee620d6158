# SPDX-License-Identifier: Apache-2.0
"""The agent frameworks that `make test-clients` runs, and how each is run.

Each framework has an environment of its own below FRAMEWORKS, made from requirements/NAME.txt or
package.json, because their requirements exclude each other. The agents for the SDKs in Go and Rust
are programs, which are compiled there.
"""

import json
import os
import pathlib
import subprocess
from dataclasses import dataclass

HERE = pathlib.Path(__file__).parent
ENVIRONMENTS = pathlib.Path(os.environ.get("FRAMEWORKS", "/nonexistent"))
NODE = pathlib.Path(os.environ.get("CLIENTS", "/nonexistent")) / "node_modules/node/bin/node"
# A user's settings decide nothing here, and no framework reports to anybody.
KEPT = ("PATH", "LANG", "TMPDIR")
SETTINGS = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "NO_PROXY": "127.0.0.1",
    **dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"), "none"),
    **dict.fromkeys(("CREWAI_DISABLE_TELEMETRY", "OTEL_SDK_DISABLED", "DO_NOT_TRACK"), "true"),
    **dict.fromkeys(("CREWAI_TRACING_ENABLED", "MCP_USE_ANONYMIZED_TELEMETRY"), "false"),
}
CHAT, RESPONSES, ANTHROPIC, GEMINI = "chat", "responses", "anthropic", "gemini"
WIRES = {
    CHAT: "OpenAI chat",
    RESPONSES: "OpenAI responses",
    ANTHROPIC: "Anthropic",
    GEMINI: "Gemini",
}


# How an adapter treats the image of a result: it passes the image, it drops it, or it makes text of
# the image's bytes or a request that the API refuses. Then cubby-mcp is told to send no image.
IMAGE, DROPPED = ((), "image"), ((), "path")
NO_IMAGE = (("--images", "path"), "path")
# The framework passes structuredContent instead of the text and the image, or in addition to them.
TEXT_AND_IMAGE = (("--structured", "off"), "image")
ONLY_TEXT = (("--structured", "off", "--images", "path"), "path")


@dataclass
class Framework:
    title: str  # as the table has it
    environment: str  # a folder below ENVIRONMENTS
    package: str  # the one whose version the table names
    program: str  # in agents/; or "agent", the environment's own
    wires: dict  # {what a model adapter speaks: (options of cubby-mcp, what arrives of a figure)}
    plan: tuple = ()  # more for the agent's plan
    note: str = ""  # in the table


FRAMEWORKS = {
    "langchain": Framework(
        "LangChain, LangGraph",
        "langchain",
        "langchain-mcp-adapters",
        "langchain_agent.py",
        {CHAT: NO_IMAGE, RESPONSES: IMAGE, ANTHROPIC: IMAGE, GEMINI: IMAGE},
    ),
    "deepagents": Framework(
        "deepagents",
        "langchain",
        "deepagents",
        "langchain_agent.py",
        {ANTHROPIC: IMAGE, RESPONSES: IMAGE},
        (("deepagents", True),),
    ),
    "openai-agents": Framework(
        "OpenAI Agents",
        "openai-agents",
        "openai-agents",
        "openai_agents.py",
        {RESPONSES: IMAGE, CHAT: DROPPED},
        note="give `client_session_timeout_seconds=120`: its default is 5 s for each call",
    ),
    "openai-agents-strict": Framework(
        "OpenAI Agents, strict schemas",
        "openai-agents",
        "openai-agents",
        "openai_agents.py",
        {RESPONSES: IMAGE, CHAT: DROPPED},
        (("strict", True),),
    ),
    "pydantic-ai": Framework(
        "Pydantic AI",
        "pydantic-ai",
        "pydantic-ai-slim",
        "pydantic_agent.py",
        dict.fromkeys((CHAT, RESPONSES, ANTHROPIC, GEMINI), TEXT_AND_IMAGE),
    ),
    "llama-index": Framework(
        "LlamaIndex",
        "llama-index",
        "llama-index-tools-mcp",
        "llama_index_agent.py",
        {CHAT: ONLY_TEXT},
    ),
    "google-adk": Framework(
        "Google ADK", "google-adk", "google-adk", "adk_agent.py", {GEMINI: ONLY_TEXT}
    ),
    "autogen": Framework(
        "AutoGen",
        "autogen",
        "autogen-ext",
        "autogen_agent.py",
        {CHAT: NO_IMAGE},
        note="needs `mcp<2`",
    ),
    "semantic-kernel": Framework(
        "Semantic Kernel",
        "semantic-kernel",
        "semantic-kernel",
        "semantic_kernel_agent.py",
        {CHAT: NO_IMAGE},
    ),
    "crewai": Framework("CrewAI", "crewai", "crewai-tools", "crewai_agent.py", {CHAT: DROPPED}),
    "smolagents": Framework(
        "smolagents",
        "smolagents",
        "smolagents",
        "smolagents_agent.py",
        {CHAT: DROPPED},
        note="needs `mcp<2`",
    ),
    "agno": Framework("Agno", "agno", "agno", "agno_agent.py", {CHAT: IMAGE, RESPONSES: IMAGE}),
    "strands": Framework(
        "Strands Agents", "strands", "strands-agents", "strands_agent.py", {CHAT: IMAGE}
    ),
    "mcp-use": Framework("mcp-use", "mcp-use", "mcp-use", "mcp_use_agent.py", {CHAT: NO_IMAGE}),
    "ai-sdk": Framework(
        "Vercel AI SDK",
        "node",
        "@ai-sdk/mcp",
        "ai_sdk_agent.mjs",
        {CHAT: NO_IMAGE, RESPONSES: IMAGE},
    ),
    "mastra": Framework(
        "Mastra", "node", "@mastra/mcp", "mastra_agent.mjs", {RESPONSES: DROPPED, CHAT: DROPPED}
    ),
    "go-sdk": Framework(
        "Go SDK", "go_sdk", "github.com/modelcontextprotocol/go-sdk", "agent", {ANTHROPIC: IMAGE}
    ),
    "rmcp": Framework("Rust SDK", "rmcp", "rmcp", "agent", {ANTHROPIC: IMAGE}),
}


def environment():
    kept = {k: v for k, v in os.environ.items() if k in KEPT}
    return {**kept, **SETTINGS}


def command(framework, where):
    program = HERE / "agents" / framework.program
    if not program.suffix:
        return [where / program.name]
    return [where / "bin/python" if program.suffix == ".py" else NODE, program]


def run_agent(framework, server, wire, model_url, task, home, seconds=240):
    """Run the agent until it ends. Return what it printed."""
    plan = {
        "server": server,
        "wire": wire,
        "model_url": model_url,
        "task": task,
        **dict(framework.plan),
    }
    where = ENVIRONMENTS / framework.environment
    plan["packages"] = str(where)
    done = subprocess.run(
        [*command(framework, where), json.dumps(plan)],
        cwd=home,
        timeout=seconds,
        env={**environment(), "HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return done.stdout


# ---- what passed
PASSED = ENVIRONMENTS / "passed"


def note_passed(name, wire, transport):
    PASSED.mkdir(exist_ok=True)
    (PASSED / f"{name} {wire} {transport}").touch()


def has_passed(name, wire, transport):
    return (PASSED / f"{name} {wire} {transport}").exists()
