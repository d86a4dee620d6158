# SPDX-License-Identifier: Apache-2.0
"""A daemon with two API keys, and requests with each."""

import hashlib
import json
import urllib.error
import urllib.request

from cubbyd import Daemon
from sdk import KEY, OnTcp


class Tenants(OnTcp, Daemon):
    """A daemon with two API keys, which are also their names."""

    KEYS = [KEY, "cby_" + "b" * 40]

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        keys = [{"name": f"key{i}", "sha256": hashlib.sha256(key.encode()).hexdigest()}
                for i, key in enumerate(self.KEYS)]
        (self.home / "keys.json").write_text(json.dumps({"tokens": keys}))

    def ask(self, key, method, path, body=None):
        """(status, JSON) of a request with the key of this number."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method,
                                         headers={"X-API-KEY": self.KEYS[key], "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as answer:
            return answer.code, json.loads(answer.read())
