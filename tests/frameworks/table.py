# SPDX-License-Identifier: Apache-2.0
"""Writes the table of docs/clients.md from what passed, and fails if a row did not.

table.py DOCUMENT
"""

import json
import pathlib
import re
import sys

import coding_agents
from frameworks import FRAMEWORKS, HERE, WIRES, has_passed

BEGIN, END = "<!-- made by `make test-clients` -->", "<!-- end of the table -->"
FIGURES = {"image": "the image", "path": "its path"}
HEAD = (
    "client",
    "version",
    "model API",
    "options of `cubby-mcp`",
    "of a figure, the model gets",
    "the task",
    "remark",
)


def version(framework):
    """The version of the package that the tests pin."""
    if framework.environment == "node":
        return json.loads((HERE / "package.json").read_text())["dependencies"][framework.package]
    if framework.program == "agent":
        room = HERE / "agents" / framework.environment
        pins = "".join(f.read_text() for f in (room / "go.mod", room / "Cargo.toml") if f.exists())
        return re.search(rf'{framework.package}(?: v| = {{ version = "=)([0-9.]+)', pins)[1]
    pins = (HERE / "requirements" / f"{framework.environment}.txt").read_text()
    return re.search(rf"^{framework.package}(?:\[.*\])?==(\S+)$", pins, re.MULTILINE)[1]


def row(title, package, number, wires, options, figure, passed, remark):
    return (
        title,
        f"`{package}` {number}",
        wires,
        f"`{' '.join(options)}`" if options else "none",
        FIGURES[figure],
        "passed" if passed else "FAILED",
        remark,
    )


def framework_rows(name, framework):
    """A row for each way in which the model adapters of a framework treat figures."""
    first = next(iter(framework.wires))
    ways = {}
    for wire, way in framework.wires.items():
        ways.setdefault(way, []).append(wire)
    for (options, figure), wires in ways.items():
        passed = all(has_passed(name, wire, "stdio") for wire in wires) and (
            first not in wires or has_passed(name, first, "HTTP")
        )
        yield row(
            framework.title,
            framework.package,
            version(framework),
            ", ".join(WIRES[wire] for wire in wires),
            options,
            figure,
            passed,
            framework.note,
        )


def rows():
    for name, agent in coding_agents.AGENTS.items():
        yield row(
            agent.title,
            agent.package,
            coding_agents.version(agent),
            agent.wire,
            agent.options,
            "image",
            has_passed(name, agent.wire, "stdio"),
            "",
        )
    for name, framework in FRAMEWORKS.items():
        yield from framework_rows(name, framework)


def table():
    lines = [HEAD, ["---"] * len(HEAD), *rows()]
    return "\n".join(re.sub(r" +\|", " |", "| " + " | ".join(line) + " |") for line in lines)


def main():
    document = pathlib.Path(sys.argv[1])
    before, rest = document.read_text().split(BEGIN)
    made = table()
    document.write_text(f"{before}{BEGIN}\n\n{made}\n\n{END}{rest.split(END)[1]}")
    print(made)
    return int("FAILED" in made)


if __name__ == "__main__":
    sys.exit(main())
