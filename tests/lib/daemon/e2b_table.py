# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/e2b.md, from cubbyd's table of routes, the list of our tests, and mcp-gateway's table of servers.

`python3 tests/lib/daemon/e2b_table.py` writes them into the document.
"""

import json
import pathlib
import re

from e2b_operations import METHODS, OPERATIONS

ROOT = pathlib.Path(__file__).parents[3]
API = ROOT / "sandbox-backend/daemon/api"
PAGE = ROOT / "docs/e2b.md"
ROUTE = re.compile(r'\{"([A-Z]+)", "(/[^"]*)", API_\w+, (\w+)\}')
ABSENT = re.compile(r'\{"(/[^"]*)",\s*"([^"]*)",\s*((?:"[^"]*"\s*)+)\}')
LISTS = re.compile(r"^(?:COMMANDS|FILES|PTY|SANDBOX|CODE) = \[(?:\"(\w+)\" \+ name for name in )?(.*?)\]",
                   re.DOTALL | re.MULTILINE)


def routes():
    """{(method, path): handler} of all files, since a part of the API may have a table of its own."""
    return {(m, p): h for source in sorted(API.glob("*.c")) for m, p, h in ROUTE.findall(source.read_text())}


def absent():
    """[(path, what is missing, what to do instead)]"""
    rows = ABSENT.findall((API / "api_absent.c").read_text())
    assert rows
    return [(path, what, "".join(re.findall(r'"([^"]*)"', instead))) for path, what, instead in rows]


def scenarios():
    source = (ROOT / "tests/lib/daemon/sdk.py").read_text()
    known = {prefix + name for prefix, names in LISTS.findall(source) for name in re.findall(r'"(\w+)"', names)}
    return known | set(re.findall(r'"((?:commands|files|pty|sandbox|code)_\w+)"', source))  # of one SDK


def of_operation(operation, served, missing):
    """(works, why not) of "GET /x"."""
    method, path = operation.split(" ")
    handler = served.get((method, path))
    if handler and handler != "api_no_feature":
        return True, ""
    for prefix, _, instead in missing:
        if path == prefix or path.startswith(prefix + "/"):
            return False, instead
    if handler:
        return False, "`cubby template build` makes templates"
    return False, ""


def is_there(test, known):
    if "::" not in test:
        return test in known
    file, name = test.split("::")
    path = ROOT / "tests" / file
    return path.exists() and re.search(rf"^def {name}\b", path.read_text(), re.MULTILINE) is not None


def operations():
    served, missing = routes(), absent()
    lines = ["| operation | here | instead |", "|---|---|---|"]
    for operation in OPERATIONS:
        works, why = of_operation(operation, served, missing)
        lines.append(f"| `{operation}` | {'works' if works else 'refused' if why else 'not found'} | {why} |")
    return "\n".join(lines)


def method_names():
    """The methods and verbs of METHODS, each with its object: "sandbox.commands.kill", "e2b sandbox kill"."""
    found = set()
    for row in METHODS:
        prefix = ""
        for word in row.split(" | ")[0].split(":")[0].split(", "):
            at = max(word.rfind("."), word.rfind(" "))
            prefix = word[:at + 1] or prefix
            found.add((prefix + word[at + 1:]).strip())
    return found


def methods():
    served, missing, known = routes(), absent(), scenarios()
    lines = ["| method | here | shown by |", "|---|---|---|"]
    for row in METHODS:
        name, needs, test = (part.strip() for part in row.split("|"))
        # "-": the operation is there, and refuses what the method asks for
        wanted = [o != "-" and of_operation(o, served, missing)[0] for o in needs.split(", ") if o]
        assert not test or is_there(test, known), f"there is no test {test}, which is said to show {name}"
        state = ("works" if test else "served") if all(wanted) else "refused" if not any(wanted) else "in part"
        lines.append(f"| `{name}` | {state} | {f'`{test}`' if test else ''} |")
    return "\n".join(lines)


def servers():
    """The MCP servers of the option `mcp`."""
    rows = json.loads((ROOT / "sandbox-backend/guest/mcp_gateway/servers.json").read_text())
    lines = ["| server | package | of | members | in the template |", "|---|---|---|---|---|"]
    for name, row in rows.items():
        registry = "npm" if "npm" in row else "pip"
        members = ", ".join(f"`{key}`" + ("" if how.get("required") else "?") for key, how in row.get("members", {}).items())
        package = re.sub(r"(?<=[a-z])(@|==)[0-9].*", "", row[registry].split()[0])
        lines.append(f"| `{name}` | `{package}` | {'npm' if registry == 'npm' else 'PyPI'} | {members} | "
                     f"{'yes' if row.get('installed') else ''} |")
    return "\n".join(lines)


def page(text):
    """The document with its tables made anew."""
    for name, table in (("operations", operations()), ("methods", methods()), ("servers", servers())):
        begin, end = f"<!-- {name}: made by tests/lib/daemon/e2b_table.py -->\n", f"<!-- end of {name} -->"
        before, rest = text.split(begin)
        text = before + begin + "\n" + table + "\n\n" + end + rest.split(end)[1]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
