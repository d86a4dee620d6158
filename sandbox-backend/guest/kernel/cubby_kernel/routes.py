# SPDX-License-Identifier: Apache-2.0
"""E2B's code interpreter protocol: check requests and pass them to contexts."""
import functools
import os

from . import bash, contexts, environment
from .context import Run
from .web import WebError


def _string(body, name):
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise WebError(400, f"{name} must be a string")
    if value is not None and "\0" in value:
        raise WebError(400, f"{name} must not have a NUL character")
    return value


def _variables(body, language):
    value = body.get("env_vars") or {}
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise WebError(400, "env_vars must be an object of strings")
    for name, text in value.items():
        if not environment.is_variable(name, text) or (language == "bash" and not bash.is_name(name)):
            raise WebError(400, f"env_vars: {name[:80]!r} cannot be the name of a variable with that value")
    return value


def _figures_dir(body):
    value = _string(body, "figures_dir")
    if value is None:
        return None
    if value.startswith("~/"):
        value = os.path.expanduser(value)
    if not os.path.isabs(value):
        raise WebError(400, "figures_dir must be an absolute path, or begin with ~/")
    return value


def _quotes(body):
    value = body.get("quotes", False)
    if not isinstance(value, bool):
        raise WebError(400, "quotes must be true or false")
    return value


class Routes:
    def __init__(self, table):
        self._contexts = table

    async def handle(self, request, connection):
        parts = [p for p in request.path.split("/") if p]
        for method, pattern, handler in self._ROUTES:
            if len(pattern) != len(parts) or any(a not in (b, "*") for a, b in zip(pattern, parts)):
                continue
            if method == request.method:
                await handler(self, request, connection, *(b for a, b in zip(pattern, parts) if a == "*"))
                return
        allowed = sorted({m for m, pattern, _ in self._ROUTES if len(pattern) == len(parts)
                          and all(a in (b, "*") for a, b in zip(pattern, parts))})
        if allowed:
            raise WebError(405, f"{request.path} takes {' or '.join(allowed)}", [("Allow", ", ".join(allowed))])
        raise WebError(404, f"there is nothing at {request.path[:200]}")

    async def _health(self, request, connection):
        connection.answer("OK")

    async def _execute(self, request, connection):
        body = request.json()
        if body.get("context_id") is not None and body.get("language") is not None:
            raise WebError(400, "Only one of context_id or language can be provided")
        code = _string(body, "code")
        if code is None:
            raise WebError(400, "code is missing")
        identifier = _string(body, "context_id")
        if identifier is not None:
            context = self._contexts.get(identifier)
        else:
            context = self._contexts.of_language(contexts.language_name(_string(body, "language")))
        variables = _variables(body, context.language)
        run = Run(code, variables, _figures_dir(body), _quotes(body), connection.line, connection.abort)
        context.check_room()
        connection.begin_lines()
        connection.on_lost = functools.partial(context.abandon, run)
        await context.execute(run)
        connection.on_lost = None
        connection.end_lines()

    async def _list(self, request, connection):
        connection.answer_json(self._contexts.describe_all())

    async def _create(self, request, connection):
        body = request.json()
        language = contexts.language_name(_string(body, "language"))
        cwd, identifier = _string(body, "cwd"), _string(body, "id")
        if identifier is None:
            context = self._contexts.create(language, cwd)
        else:
            context = self._contexts.named(identifier, language, cwd)
        connection.answer_json(context.describe())

    async def _restart(self, request, connection, identifier):
        await self._contexts.get(identifier).restart()
        connection.answer_json(None)

    async def _interrupt(self, request, connection, identifier):
        self._contexts.get(identifier).interrupt()
        connection.answer_json(None)

    async def _delete(self, request, connection, identifier):
        await self._contexts.delete(identifier)
        connection.answer_json(None)

    _ROUTES = (
        ("GET", ("health",), _health),
        ("POST", ("execute",), _execute),
        ("GET", ("contexts",), _list),
        ("POST", ("contexts",), _create),
        ("POST", ("contexts", "*", "restart"), _restart),
        ("POST", ("contexts", "*", "interrupt"), _interrupt),
        ("DELETE", ("contexts", "*"), _delete),
    )
