# SPDX-License-Identifier: Apache-2.0
"""The table of contexts, including the default ones."""
import os
import re
import uuid

from . import limits, node
from .context import Context
from .sessions import SESSIONS
from .web import WebError

# The contexts of runs that name none. Cubby's tools know the name "default".
_DEFAULTS = {
    "python": "default",
    "bash": "default-bash",
    "javascript": "default-javascript",
    "typescript": "default-typescript",
}
_LISTED = ("python",)  # languages whose default context is listed before its first run
_SHORT = {"js": "javascript", "ts": "typescript"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def language_name(value):
    """Return the language of a request. Raise WebError if this sandbox does not have it."""
    name = "python" if value is None else str(value).strip().lower()
    name = _SHORT.get(name, name)
    if name in node.LANGUAGES and not node.is_here():
        raise WebError(
            400,
            f"{name} needs Node.js, which this sandbox does not have; install it (sudo apt-get install nodejs), "
            "or use a template that has it, such as full or agents",
        )
    if name not in SESSIONS:
        here = [n for n in SESSIONS if n not in node.LANGUAGES or node.is_here()]
        raise WebError(400, f"there is no language \"{name[:40]}\" in this sandbox: it has {' and '.join(here)}")
    return name


class Contexts:
    def __init__(self, nursery, env, cwd):
        self._nursery = nursery
        self._env = env
        self._cwd = cwd
        self._contexts = {}

    def describe_all(self):
        """Describe the contexts, including default ones that the first run will start."""
        waiting = [
            {"id": _DEFAULTS[language], "language": language, "cwd": self._cwd}
            for language in _LISTED
            if _DEFAULTS[language] not in self._contexts
        ]
        return [*waiting, *(context.describe() for context in self._contexts.values())]

    def create(self, language, cwd=None, identifier=None):
        language = language_name(language)
        if len(self._contexts) >= limits.CONTEXTS_MAX:
            raise WebError(
                429, f"there are {limits.CONTEXTS_MAX} contexts, which is the most; delete one that is not used"
            )
        cwd = self._cwd if cwd is None else cwd
        if not os.path.isdir(cwd):
            raise WebError(400, f"cwd {cwd!r} is not a directory")
        identifier = identifier or str(uuid.uuid4())
        context = Context(identifier, language, os.path.abspath(cwd), self._nursery, self._env)
        self._contexts[identifier] = context
        return context

    def named(self, identifier, language, cwd=None):
        """Return the context of this name, and create it if it is missing: two clients may ask at once."""
        if not _NAME.fullmatch(identifier):
            raise WebError(400, "id must be 1 to 64 letters, digits, '-' or '_'")
        context = self._contexts.get(identifier) or (identifier in _DEFAULTS.values() and self.get(identifier))
        if not context:
            return self.create(language, cwd, identifier)
        if context.language != language:
            raise WebError(409, f"context {identifier} is one of {context.language}")
        return context

    def of_language(self, language):
        identifier = _DEFAULTS[language]
        return self._contexts.get(identifier) or self.create(language, identifier=identifier)

    def get(self, identifier):
        for language, name in _DEFAULTS.items():
            if identifier == name:
                return self.of_language(language)
        context = self._contexts.get(identifier)
        if context is None:
            raise WebError(404, f"Context {identifier} not found")
        return context

    async def delete(self, identifier):
        context = self._contexts.pop(identifier, None)
        if context is None:
            raise WebError(404, f"Context {identifier} not found")
        await context.delete()
        if not self._contexts:  # as after the start
            await self._nursery.prepare()
