# SPDX-License-Identifier: Apache-2.0
"""The coding agents that people configure, from npm: how each is configured for Cubby and run once.

Each runs as in docs/clients.md, with a home of its own and the scripted model in place of its
provider. Its own state is below `room`; it works in `room`/project.
"""

import json
import os
import pathlib
import subprocess

from frameworks import ENVIRONMENTS, KEPT, NODE

PROGRAMS = ENVIRONMENTS / "clis/node_modules/.bin"
# Both of these pass structuredContent to the model instead of the text and the images.
UNSTRUCTURED = ("--structured", "off")


class CodingAgent:
    title = package = wire = name = None
    options = ()

    def __init__(self, room, server, home, model_url):
        self.room, self.model_url = room, model_url
        self.server = [str(server), *self.options]
        self.home = home
        self.project = room / "project"
        self.project.mkdir(exist_ok=True)

    def variables(self):
        return {}

    def run(self, *words, seconds=200, **more):
        """Run the agent's program. Return what it printed."""
        kept = {k: v for k, v in os.environ.items() if k in KEPT}
        env = {
            **kept,
            "PATH": f"{NODE.parent}:{os.environ['PATH']}",
            "HOME": str(self.room),
            "NO_PROXY": "127.0.0.1",
            **self.variables(),
            **more,
        }
        done = subprocess.run(
            [str(PROGRAMS / self.name), *map(str, words)],
            cwd=self.project,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def add(self):
        """Tell the agent of Cubby, by the command that docs/clients.md has."""

    def ask(self, task):
        """Let the agent do a task. Return its last words."""


class ClaudeCode(CodingAgent):
    title, package, wire, name = "Claude Code", "@anthropic-ai/claude-code", "Anthropic", "claude"
    options = UNSTRUCTURED

    def variables(self):
        return {
            "ANTHROPIC_BASE_URL": self.model_url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }

    def add(self):
        self.run("mcp", "add", "cubby", "-e", f"CUBBY_HOME={self.home}", "--", *self.server)

    def ask(self, task, *options):
        return self.run("-p", task, "--allowedTools", "mcp__cubby", *options)


class Codex(CodingAgent):
    title, package, wire, name = "Codex", "@openai/codex", "OpenAI responses", "codex"
    options = UNSTRUCTURED

    def variables(self):
        return {"OPENAI_API_KEY": "none"}

    def add(self):
        self.run("mcp", "add", "cubby", "--env", f"CUBBY_HOME={self.home}", "--", *self.server)

    def ask(self, task, *options):
        provider = {
            "name": '"stub"',
            "base_url": f'"{self.model_url}/v1"',
            "wire_api": '"responses"',
            "env_key": '"OPENAI_API_KEY"',
        }
        table = ",".join(f"{k}={v}" for k, v in provider.items())
        return self.run(
            "exec",
            "-m",
            "gpt-5.1",
            "--skip-git-repo-check",
            "--dangerously-bypass-approvals-and-sandbox",
            "-c",
            'model_provider="stub"',
            "-c",
            f"model_providers.stub={{{table}}}",
            *options,
            task,
        )


class GeminiCli(CodingAgent):
    title, package, wire, name = "Gemini CLI", "@google/gemini-cli", "Gemini", "gemini"

    def variables(self):
        return {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": self.model_url}

    def add(self):
        settings = self.room / ".gemini/settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}}))
        program, *options = self.server
        self.run(
            "mcp", "add", "-s", "user", "-e", f"CUBBY_HOME={self.home}", "cubby", program, *options
        )

    def ask(self, task):
        return self.run("--skip-trust", "-y", "-m", "gemini-2.5-flash", "-p", task)


class OpenCode(CodingAgent):
    title, package, wire, name = "opencode", "opencode-ai", "OpenAI chat", "opencode"

    def add(self):
        kinds = {"input": ["text", "image"], "output": ["text"]}
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": self.model_url + "/v1", "apiKey": "none"},
            "models": {"gpt-5": {"attachment": True, "modalities": kinds}},
        }
        cubby = {
            "type": "local",
            "command": self.server,
            "environment": {"CUBBY_HOME": str(self.home)},
        }
        (self.project / "opencode.json").write_text(
            json.dumps(
                {"provider": {"stub": provider}, "model": "stub/gpt-5", "mcp": {"cubby": cubby}}
            )
        )

    def ask(self, task):
        return self.run("run", task)


AGENTS = {agent.name: agent for agent in (ClaudeCode, Codex, GeminiCli, OpenCode)}


def version(agent):
    pins = json.loads((pathlib.Path(__file__).parent / "clis/package.json").read_text())
    return pins["dependencies"][agent.package]
