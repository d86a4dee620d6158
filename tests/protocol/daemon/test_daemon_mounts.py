# SPDX-License-Identifier: Apache-2.0
"""Who may mount a directory of the host, and what is refused before anything starts. The tests'
driver cannot mount; tests/e2e/test_mounts.py does it.
"""

import pytest

from cubbyd import Daemon, wait_for
from key_holder import ask, new_key


@pytest.fixture(scope="module")
def daemon():
    with Daemon("--listen", "127.0.0.1:0") as d:
        yield d


def test_a_key_may_not(daemon, tmp_path):
    key = new_key(daemon, "me")
    wait_for(lambda: ask(daemon, "GET", "/v2/sandboxes", key=key).status == 200, 30, "it is known")
    made = ask(daemon, "POST", "/v2/sandboxes", {"templateID": "base"}, key=key).json["sandboxID"]
    body = {"source": str(tmp_path), "target": "/project"}
    for method, path, data in (("POST", f"/sandboxes/{made}/mounts", body), ("GET", f"/sandboxes/{made}/mounts", None),
                               ("DELETE", f"/sandboxes/{made}/mounts?target=/project", None)):
        answer = ask(daemon, method, path, data, key=key)
        assert answer.status == 403 and "unix socket" in answer.json["message"], method
    answer = ask(daemon, "POST", f"/sandboxes/{made}/fork", {"mounts": "same"}, key=key)
    assert answer.status == 403 and "unix socket" in answer.json["message"]
    assert ask(daemon, "DELETE", f"/sandboxes/{made}", key=key).status == 204


def test_a_driver_that_cannot(daemon, tmp_path):
    made = daemon.create()["sandboxID"]
    answer = daemon.request("POST", f"/sandboxes/{made}/mounts", {"source": str(tmp_path), "target": "/project"})
    assert answer.status == 501 and "mount a directory of the host" in answer.json["message"]
    assert daemon.request("GET", f"/sandboxes/{made}/mounts").json == []
    assert daemon.request("DELETE", f"/sandboxes/{made}/mounts?target=/project").status == 404
    assert daemon.request("DELETE", f"/sandboxes/{made}/mounts").status == 400
    daemon.kill(made)


@pytest.mark.parametrize("body, words", [({"source": 1, "target": "/x"}, "source"), ({"sorce": "/x"}, "sorce"),
                                         ({"source": "/x", "target": "/y", "readOnly": "yes"}, "readOnly")])
def test_what_is_no_mount(daemon, body, words):
    made = daemon.create()["sandboxID"]
    answer = daemon.request("POST", f"/sandboxes/{made}/mounts", body)
    assert answer.status == 400 and words in answer.json["message"]
    daemon.kill(made)


@pytest.mark.parametrize("value, status", [("same", 201), ("none", 201), ("all", 400)])
def test_a_fork_says_which_mounts(daemon, value, status):
    made = daemon.create()["sandboxID"]
    answer = daemon.request("POST", f"/sandboxes/{made}/fork", {"mounts": value, "timeout": 60})
    assert answer.status == status, answer.body
    for child in answer.json if status == 201 else []:
        daemon.kill(child["sandbox"]["sandboxID"])
    daemon.kill(made)
