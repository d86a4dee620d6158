# SPDX-License-Identifier: Apache-2.0
"""What a request to a model means, whatever its wire format: tools, results of calls, images.

The checks here are those that several providers make.
"""

import itertools
import re
from dataclasses import dataclass, field

NUMBERS = itertools.count(1)
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BadRequest(Exception):
    """The provider's API would refuse this request."""


@dataclass
class Call:
    """A call that the model makes. `name` is Cubby's name of the tool; clients may add a prefix."""

    name: str
    arguments: dict
    number: int = field(default_factory=lambda: next(NUMBERS))
    namespace: str = None

    @property
    def id(self):
        return f"call_{self.number:08d}"


@dataclass
class Final:
    text: str


@dataclass
class Result:
    """The result of a call, as the model sees it."""

    text: str
    images: int = 0
    is_error: bool = None  # None if the wire format does not say
    tool: str = None
    images_so_far: int = 0  # in the whole conversation: some adapters add a message for images


@dataclass
class Tool:
    name: str
    schema: dict
    strict: bool = False
    namespace: str = None  # a group of tools, as Codex sends them


@dataclass
class Turn:
    tools: list = field(default_factory=list)
    results: list = field(default_factory=list)
    images: int = 0

    def names(self, name):
        """The client's names of a tool, such as mcp__cubby__write_file. A coding agent may have a
        write_file of its own."""
        names = [t.name for t in self.tools]
        found = [n for n in names if n == name] + [
            n for n in names if re.search(rf"[_.:/-]{name}$", n)
        ]
        return [n for n in found if "cubby" in n] or found[:1]

    def has(self, name):
        return bool(self.names(name))

    def full_call(self, call):
        """The call of the client's tool. It has an empty value for each argument that the client's
        schema requires besides.

        Strict mode, and clients that know no optional argument, make a model give all of them.
        """
        found = self.names(call.name)
        if len(found) != 1:
            raise BadRequest(f"no one tool {call.name} among {[t.name for t in self.tools]}")
        tool = next(t for t in self.tools if t.name == found[0])
        required = tool.schema.get("required", [])
        absent = {name: nothing(tool.schema["properties"][name]) for name in required}
        return Call(tool.name, {**absent, **call.arguments}, call.number, tool.namespace)


def nothing(schema):
    """The value of an argument that the model has none for, and must give."""
    choices = [one.get("type") for one in schema.get("anyOf", [])] or [schema.get("type")]
    kinds = [kind for one in choices for kind in (one if isinstance(one, list) else [one])]
    if "null" in kinds:
        return None
    if "enum" in schema:
        return schema["enum"][0]
    return {"string": "", "integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}[
        kinds[0]
    ]


def check_name(name):
    if not TOOL_NAME.fullmatch(name):
        raise BadRequest(f"tool name {name!r}: does not match {TOOL_NAME.pattern}")


def check_url(url, where):
    """APIs fetch http and https URLs; `data:` holds the bytes."""
    if not re.match(r"https?://|data:[a-z]+/[a-z0-9.+-]+;base64,", url):
        raise BadRequest(f"{where}: a URL that cannot be fetched: {url[:80]}")


def check_image(data, kind, where):
    """An image is base64 of one of the kinds that all providers take."""
    if kind not in ("image/png", "image/jpeg", "image/gif", "image/webp"):
        raise BadRequest(f"{where}: image of the kind {kind}")
    if not re.fullmatch(r"[A-Za-z0-9+/]{16,}={0,2}", data):
        raise BadRequest(f"{where}: the data of the image is not base64")


def check_schema(schema, where, depth=0):
    """Rules of all providers: an object at the top, `items` in arrays, references within."""
    if depth == 0 and schema.get("type") != "object":
        raise BadRequest(f"{where}: schema must be of type object")
    if schema.get("type") == "array" and "items" not in schema:
        raise BadRequest(f"{where}: array schema missing items")
    if "$ref" in schema and not schema["$ref"].startswith("#/"):
        raise BadRequest(f"{where}: reference {schema['$ref']}")
    for required in schema.get("required", []):
        if required not in schema.get("properties", {}):
            raise BadRequest(f"{where}: required {required!r} is not a property")
    for name, one in schema.get("properties", {}).items():
        check_schema(one, f"{where}.{name}", depth + 1)
    if isinstance(schema.get("items"), dict):
        check_schema(schema["items"], f"{where}[]", depth + 1)
    for one in schema.get("anyOf", []):
        check_schema(one, where, depth + 1)
