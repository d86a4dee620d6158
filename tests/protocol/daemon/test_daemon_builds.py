# SPDX-License-Identifier: Apache-2.0
"""Builds of templates through the API: the requests of E2B's SDKs, the states of a build, uploads, tags and names.

The machines are processes, so tests/lib/daemon/build_engine.py stands for the program that runs the steps. The whole
way, with the real one, is in tests/e2e/test_sdk_templates.py.
"""

import gzip
import hashlib
import io
import json
import os
import signal
import tarfile
import urllib.parse
import uuid

import pytest

from cubbyd import Daemon, wait_for
from key_holder import ask, cubby

HASH = "ab" * 32
BASE = {"fromTemplate": "default"}


@pytest.fixture
def daemon():
    with Daemon("--pool", "off") as d:
        yield d


def key(daemon, name, *options):
    made = cubby(daemon.home, "key", "new", "--plain", *options, name)
    assert made.returncode == 0, made.stderr
    text = made.stdout.strip()
    wait_for(lambda: ask(daemon, "GET", "/teams", key=text).status == 200, 10, "the daemon has read the key")
    return text


class Client:
    """Sends requests on the unix socket, or on TCP with a key."""

    def __init__(self, daemon, key=None):
        self.daemon, self.key = daemon, key

    def __call__(self, method, path, body=None):
        if self.key:
            return ask(self.daemon, method, path, body, self.key)
        return self.daemon.request(method, path, body)

    def request(self, name, **more):
        answer = self("POST", "/v3/templates", {"name": name, **more})
        assert answer.status == 202, answer.body
        return answer.json

    def start(self, made, *commands, **more):
        steps = [{"type": "RUN", "args": [c], "force": False} for c in commands]
        body = {"steps": steps, "force": False, **BASE, **more}
        return self("POST", f"/v2/templates/{made['templateID']}/builds/{made['buildID']}", body)

    def status(self, made, query=""):
        answer = self("GET", f"/templates/{made['templateID']}/builds/{made['buildID']}/status{query}")
        assert answer.status == 200, answer.body
        return answer.json

    def ended(self, made):
        """The status of the build, once it has ended."""
        return wait_for(lambda: (s := self.status(made))["status"] in ("ready", "error") and s, 30, "the end")

    def build(self, name, *commands, **more):
        made = self.request(name)
        answer = self.start(made, *commands, **more)
        assert (answer.status, answer.body) == (202, b"")
        return made, self.ended(made)


@pytest.fixture
def client(daemon):
    return Client(daemon)


def messages(status):
    return [entry["message"] for entry in status["logEntries"]]


def refused(answer, status, *words):
    """An error of E2B's shape."""
    assert answer.status == status, answer.body
    assert answer.json["code"] == status
    for word in words:
        assert word in answer.json["message"], answer.json
    return answer.json


# ---- one build
def test_a_build_becomes_a_template(daemon, client):
    made = client.request("My-App", cpuCount=1, memoryMB=1024)
    assert made["templateID"] == "my-app" and uuid.UUID(made["buildID"]).version == 4
    assert (made["tags"], made["names"], made["aliases"]) == (["default"], ["my-app"], ["my-app"])
    assert client.status(made)["status"] == "waiting"
    refused(client("GET", "/templates/aliases/my-app"), 404)
    go = daemon.home / "go"
    assert client.start(made, "echo one", f"wait {go}", readyCmd="true").status == 202
    wait_for(lambda: "one" in messages(client.status(made)), 20, "output before the end")
    assert client.status(made)["status"] == "building"
    go.touch()
    done = client.ended(made)
    assert done["status"] == "ready" and "reason" not in done
    assert "[builder 1/2] RUN echo one" in messages(done)
    assert client("GET", "/templates/aliases/my-app").json["templateID"] == "my-app"
    listed = {t["templateID"]: t for t in client("GET", "/templates").json}
    assert listed["my-app"]["buildID"] == made["buildID"] and listed["my-app"]["memoryMB"] == 1024
    assert [b["buildID"] for b in client("GET", "/templates/my-app").json["builds"]] == [made["buildID"]]
    sandbox = daemon.create(templateID="my-app")
    assert daemon.get(sandbox["sandboxID"]).json["templateID"] == "my-app"
    assert daemon.kill(sandbox["sandboxID"]) == 204


def test_the_plan_of_an_image():
    with Daemon("--pool", "off", "--build-registry", "ghcr.io,docker.io,http://127.0.0.1:5000") as daemon:
        check_image(daemon, Client(daemon))


def check_image(daemon, client):
    made, done = client.build("app", "echo x", fromTemplate="", fromImage="python:3.12", startCmd="serve",
                              readyCmd="true", force=True)
    assert done["status"] == "ready"
    plan = json.loads((daemon.home / "builds" / made["buildID"] / "plan.json").read_text())
    stage = plan["stages"][0]
    assert stage["from"] == {"image": "docker://python:3.12"} and stage["plain_http"] is False
    assert [(s["type"], s["args"]) for s in stage["steps"]] == [
        ("USER", ["user"]), ("WORKDIR", ["/home/user"]), ("RUN", ["echo x"])]
    assert (plan["start"], plan["ready"], plan["force"]) == ("serve", "true", True)


@pytest.mark.parametrize("image, template", [("e2bdev/base:latest", "default"), ("e2bdev/code-interpreter", "default")])
def test_images_of_e2b_are_local_templates(daemon, client, image, template):
    made, _ = client.build("app", fromTemplate=None, fromImage=image)
    plan = json.loads((daemon.home / "builds" / made["buildID"] / "plan.json").read_text())
    assert plan["stages"][0]["from"] == {"template": template}


@pytest.mark.parametrize("environment, first", [
    ({}, [("USER", ["user"]), ("WORKDIR", ["/home/user"])]),
    ({"user": "app"}, [("WORKDIR", ["/home/user"])]),
    ({"user": "app", "directory": "/srv"}, []),
])
def test_a_template_keeps_its_user_and_directory(daemon, client, environment, first):
    daemon.template("other", environment=environment)
    made, _ = client.build("app", "echo x", fromTemplate="other")
    plan = json.loads((daemon.home / "builds" / made["buildID"] / "plan.json").read_text())
    assert [(s["type"], s["args"]) for s in plan["stages"][0]["steps"]] == [*first, ("RUN", ["echo x"])]


@pytest.mark.parametrize("commands, step, message", [
    (["echo a", "fail no such package"], "2", "no such package"),
    (["die out of luck"], "1", "the build exited with status 7: out of luck"),
])
def test_a_failure_names_its_step(client, commands, step, message):
    _, done = client.build("app", *commands)
    assert done["status"] == "error"
    assert done["reason"] == {"message": message, "step": step, "logEntries": []}
    assert done["logEntries"][-1]["level"] == "error"
    refused(client("GET", "/templates/aliases/app"), 404)


def test_a_ready_command_that_fails_is_the_last_step(client):
    _, done = client.build("app", "echo a", readyCmd="false")
    assert done["reason"]["step"] == "finalize"


def test_logs_come_in_pages(client):
    made, _ = client.build("app", "flood 250")
    seen = []
    while page := client.status(made, f"?logsOffset={len(seen)}")["logEntries"]:
        assert len(page) <= 100
        seen += page
    lines = [e["message"] for e in seen]
    assert [line for line in lines if line.startswith("line ")] == [f"line {n}" for n in range(250)]
    logs = f"/templates/app/builds/{made['buildID']}/logs"
    assert client("GET", f"{logs}?cursor=5&limit=2").json["logs"] == seen[5:7]
    assert client("GET", f"{logs}?level=error").json["logs"] == []
    refused(client("GET", f"{logs}?level=loud"), 400, "level")


def test_a_full_log_says_so(client):
    made, done = client.build("app", "flood 20500", "fail late")
    assert client.status(made, "?logsOffset=20000")["logEntries"][0]["message"].startswith("the log is full")
    assert done["reason"]["message"] == "late"


def test_a_build_starts_once(client):
    made, _ = client.build("app")
    refused(client.start(made), 409, "started before")


def test_bad_requests(client):
    for body, word in (({}, "name"), ({"name": "a b"}, "a b"), ({"name": "a:B@"}, "tag"), ({"name": "../x"}, "../x"),
                       ({"name": "a", "cpuCount": 100000}, "cpuCount"), ({"name": "a", "memoryMB": 1}, "memoryMB"),
                       ({"name": "a", "tags": "x"}, "tags"), ({"name": "a", "memoryMb": 512}, "memoryMB")):
        refused(client("POST", "/v3/templates", body), 400, word)
    for body, word in (
            ({}, "fromImage"), ({**BASE, "fromImage": "x"}, "exactly one"), ({"fromImage": "oci:/etc"}, "oci:/etc"),
            ({"fromImage": "docker-archive:/x.tar"}, "docker-archive"), ({"fromImage": "docker://x"}, "docker://x"),
            ({"fromImage": "a//b"}, "a//b"), ({"fromImage": "-x/y"}, "-x/y"), ({"fromImage": "x:" + "y" * 200}, "x:"),
            ({**BASE, "steps": [{"type": "MOUNT", "args": []}]}, "MOUNT"),
            ({**BASE, "steps": [{"type": "ENV", "args": ["A"]}]}, "arguments"),
            ({**BASE, "steps": [{"type": "COPY", "args": ["a", "b"], "filesHash": "../x"}]}, "filesHash"),
            ({**BASE, "steps": [{"type": "RUN", "args": [1]}]}, "string"),
            ({"fromImage": "x", "fromImageRegistry": {"type": "aws"}}, "ecr")):
        made = client.request("app")
        answer = client("POST", f"/v2/templates/app/builds/{made['buildID']}", body)
        assert answer.status in (400, 501) and word in answer.json["message"], (body, answer.body)
        ended = client.status(made)
        assert (ended["status"], ended["reason"]["message"]) == ("error", answer.json["message"])
    made = client.request("app")
    refused(client("POST", f"/v2/templates/other/builds/{made['buildID']}", BASE), 404, "build")
    refused(client("GET", f"/templates/app/builds/{uuid.uuid4()}/status"), 404, "build")
    assert client.status(made)["status"] == "waiting", "requests that name no build change none"


def test_a_refused_start_ends_the_build(daemon, client):
    made = client.request("app")
    reason = refused(client.start(made, fromTemplate="ghost"), 404, "ghost")["message"]
    assert (client.status(made)["status"], client.status(made)["reason"]["message"]) == ("error", reason)
    assert reason in messages(client.status(made))
    refused(client.start(made), 409, "its start was refused")
    daemon.stop()
    daemon.start()
    assert client.status(made)["reason"]["message"] == reason


# ---- uploads
def archive(**files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return gzip.compress(data.getvalue())


def put(daemon, url, data):
    """Sends an upload as an SDK does: without a key, to the path of the URL."""
    return daemon.request("PUT", urllib.parse.urlsplit(url).path, data)


def test_an_upload_is_copied(daemon, client):
    made = client.request("app")
    step = {"type": "COPY", "args": ["*.txt", "/x", "", ""], "filesHash": HASH, "force": False}
    refused(client.start(made, steps=[step]), 404, "not uploaded")
    made = client.request("app")
    link = client("GET", f"/templates/app/files/{HASH}")
    assert link.status == 201 and link.json["present"] is False
    data = archive(a="1", b="2")
    assert put(daemon, link.json["url"], data).status == 200
    assert client("GET", f"/templates/app/files/{HASH}").json["present"] is True
    assert client.start(made, steps=[step]).status == 202
    done = client.ended(made)
    assert f"a, b sha256 {hashlib.sha256(data).hexdigest()}" in messages(done)
    assert not (daemon.home / "builds" / made["buildID"] / "files").exists()


def test_an_upload_needs_a_fresh_token(daemon, client):
    client.request("app")
    url = client("GET", f"/templates/app/files/{HASH}").json["url"]
    refused(put(daemon, "http://x/uploads/" + "0" * 40, b"x"), 404, "upload")
    assert put(daemon, url, b"x").status == 200
    refused(put(daemon, url, b"y"), 404, "upload")
    refused(client("GET", "/templates/app/files/" + "Z" * 64), 400, "hash")
    refused(client("GET", f"/templates/other/files/{HASH}"), 404, "other")


def test_uploads_have_limits():
    with Daemon("--pool", "off", "--max-build-upload", "1M", "--max-upload-space", "1536K") as daemon:
        client = Client(daemon)
        client.request("app")

        def send(digit, data):
            return put(daemon, client("GET", f"/templates/app/files/{digit * 64}").json["url"], data)

        refused(send("a", b"x" * (1 << 20 | 1)), 413, "--max-build-upload")
        refused(send("a", iter([b"x" * (1 << 19)] * 3)), 413, "--max-build-upload")
        assert send("a", b"x" * (1 << 20)).status == 200
        refused(send("b", b"x" * (1 << 20)), 429, "1 MB")
        assert send("a", b"x" * (1 << 20)).status == 200  # in place of the one before
        where = daemon.home / "builds/files/app"
        assert sorted(os.listdir(where)) == ["a" * 64 + ".json", "a" * 64 + ".tar"]


def test_an_interrupted_upload_leaves_nothing(daemon, client):
    client.request("app")
    url = client("GET", f"/templates/app/files/{HASH}").json["url"]
    connection = daemon.connection()
    connection.putrequest("PUT", urllib.parse.urlsplit(url).path)
    connection.putheader("Content-Length", "1000")
    connection.endheaders(b"some")
    where = daemon.home / "builds/files/app"
    wait_for(lambda: where.exists() and os.listdir(where), 10, "the upload begins")
    connection.close()
    wait_for(lambda: not os.listdir(where), 10, "its part is removed")
    assert client("GET", f"/templates/app/files/{HASH}").json["present"] is False


# ---- tags
def tags(client, name):
    return {t["tag"]: t["buildID"] for t in client("GET", f"/templates/{name}/tags").json}


def test_tags_point_to_builds(daemon, client):
    first, _ = client.build("app:v1")
    second, _ = client.build("app:v2")
    assert tags(client, "app") == {"v1": first["buildID"], "v2": second["buildID"]}
    refused(client("POST", "/sandboxes", {"templateID": "app"}), 404, "app")
    answer = client("POST", "/templates/tags", {"target": "app:v1", "tags": ["default", "app:latest"]})
    assert (answer.status, answer.json) == (201, {"tags": ["default", "latest"], "buildID": first["buildID"]})
    for name in ("app", "app:default", "app:latest", "app:v1", "app:v2"):
        made = daemon.create(templateID=name)
        assert made["templateID"] == "app" and daemon.kill(made["sandboxID"]) == 204
    refused(client("DELETE", "/templates/tags", {"name": "app", "tags": ["v1", "nix"]}), 404, "nix")
    assert client("DELETE", "/templates/tags", {"name": "app", "tags": ["v1", "latest"]}).status == 204
    assert tags(client, "app") == {"default": first["buildID"], "v2": second["buildID"]}
    refused(client("POST", "/templates/tags", {"target": "app:nix", "tags": ["x"]}), 404, "nix")
    refused(client("POST", "/templates/tags", {"target": "nix", "tags": ["x"]}), 404, "nix")
    refused(client("POST", "/templates/tags", {"target": "app", "tags": []}), 400, "tags")
    refused(client("GET", "/templates/default/tags"), 404, "not built through the API")


def test_a_rebuild_spares_what_uses_the_build_before(daemon, client):
    client.build("app")
    old = [t for t in os.listdir(daemon.home / "templates") if "@" in t]
    sandbox = daemon.create(templateID="app")["sandboxID"]
    assert client("POST", f"/sandboxes/{sandbox}/snapshots", {"name": "kept"}).status == 201
    client.build("app")
    both = {t for t in os.listdir(daemon.home / "templates") if "@" in t}
    assert both > set(old) and len(both) == 2
    assert daemon.kill(sandbox) == 204
    again = daemon.create(templateID="kept")
    assert daemon.kill(again["sandboxID"]) == 204
    assert client("DELETE", "/templates/kept").status == 204
    client.build("other")  # the end of any build collects
    wait_for(lambda: old[0] not in os.listdir(daemon.home / "templates"), 10, "nobody needs it any more")


def test_a_name_is_deleted_with_its_builds(daemon, client):
    client.build("app:v1")
    client.build("app")
    sandbox = daemon.create(templateID="app")["sandboxID"]
    refused(client("DELETE", "/templates/app"), 409, sandbox)
    daemon.kill(sandbox)
    wait_for(lambda: client("DELETE", "/templates/app").status == 204, 10, "nobody uses it")
    wait_for(lambda: os.listdir(daemon.home / "templates") == ["default"], 10, "the templates are gone")
    refused(client("GET", "/templates/app"), 404)
    refused(client("DELETE", "/templates/default"), 403, "cubby template rm")


def test_a_deleted_name_ends_its_build(daemon, client):
    made = client.request("app")
    client.start(made, "echo on", f"wait {daemon.home}/never")
    wait_for(lambda: "on" in messages(client.status(made)), 20, "it runs")
    assert client("DELETE", "/templates/app").status == 204
    assert "deleted" in client.ended(made)["reason"]["message"]


def test_the_later_of_two_builders_wins(daemon, client):
    client.build("app")
    daemon.template("app", created_at="2020-01-01T00:00:00Z", memory_mb=600)
    assert client("GET", "/templates/aliases/app").json["templateID"] == "app"
    assert daemon.get(daemon.create(templateID="app")["sandboxID"]).json["memoryMB"] == 512
    daemon.template("app", created_at="2200-01-01T00:00:00Z", memory_mb=600)
    assert daemon.get(daemon.create(templateID="app")["sandboxID"]).json["memoryMB"] == 600


# ---- the queue, and the daemon's end
def test_builds_wait_for_each_other():
    with Daemon("--pool", "off", "--max-builds", "1") as daemon:
        client = Client(daemon)
        first, second = client.request("a"), client.request("b")
        client.start(first, "echo on", f"wait {daemon.home}/go")
        client.start(second, "echo two")
        wait_for(lambda: "on" in messages(client.status(first)), 20, "the first runs")
        assert client.status(second)["status"] == "building" and not messages(client.status(second))
        (daemon.home / "go").touch()
        assert client.ended(second)["status"] == "ready"


def test_a_stopped_daemon_ends_its_builds(daemon, client):
    made = client.request("app")
    client.start(made, "echo on", f"wait {daemon.home}/never")
    wait_for(lambda: "on" in messages(client.status(made)), 20, "it runs")
    assert daemon.stop() == 0
    daemon.start()
    assert client.status(made)["reason"]["message"] == "cubbyd was stopped while the build ran"


def test_a_killed_daemon_fails_its_build_and_keeps_the_queue():
    with Daemon("--pool", "off", "--max-builds", "1") as daemon:
        client = Client(daemon)
        waiting, first, second = client.request("c"), client.request("a"), client.request("b")
        client.start(first, "echo on", f"wait {daemon.home}/never")
        client.start(second, "echo two")
        wait_for(lambda: "on" in messages(client.status(first)), 20, "the first runs")
        daemon.stop(signal.SIGKILL)
        daemon.start()
        for made in (first, waiting):
            assert "cubbyd ended while this build ran" in client.status(made)["reason"]["message"]
        assert "on" in messages(client.status(first))
        assert client.ended(second)["status"] == "ready"
        assert sorted(t["templateID"] for t in client("GET", "/templates").json) == ["b", "default"]


def test_a_registry_needs_permission(daemon, client):
    for image, registry in (("python:3.12", "docker.io"), ("127.0.0.1:5000/a", "127.0.0.1:5000"),
                            ("169.254.169.254/a", "169.254.169.254"), ("GHCR.io/a/b", "ghcr.io")):
        made = client.request("app")
        refused(client.start(made, fromTemplate=None, fromImage=image), 403, registry, "--build-registry")


# ---- keys
@pytest.fixture(scope="module")
def shared():
    with Daemon("--pool", "off", "--listen", "127.0.0.1:0", "--build-registry", "ghcr.io") as d:
        yield d


def test_a_key_needs_the_right_to_build(shared):
    plain = Client(shared, key(shared, "plain"))
    refused(plain("POST", "/v3/templates", {"name": "app"}), 403, "--max-builds", "--allow-builds")
    with Daemon("--pool", "off", "--listen", "127.0.0.1:0", "--allow-builds") as daemon:
        Client(daemon, key(daemon, "plain")).request("app")


def test_a_key_has_a_limit_of_builds(shared):
    one = Client(shared, key(shared, "one", "--max-builds", "1", "--max-disk-mb", "2"))
    made = one.request("limited")
    refused(one("POST", "/v3/templates", {"name": "limited"}), 429, "max_builds")
    one.start(made)
    assert one.ended(made)["status"] == "ready"
    one.build("limited:v2")
    refused(one("POST", "/v3/templates", {"name": "limited"}), 429, "max_disk_mb")


def test_refused_starts_do_not_lock_a_key_out(shared):
    two = Client(shared, key(shared, "two", "--max-builds", "2"))
    for base in ({"fromTemplate": "ghost"}, {"fromTemplate": None, "fromImage": "docker.io/a"}) * 2:
        assert two.start(two.request("locked"), **base).status in (403, 404)
    assert two.build("locked")[1]["status"] == "ready"


def test_keys_do_not_share_their_builds(shared):
    ours = Client(shared, key(shared, "ours", "--max-builds", "9"))
    other = Client(shared, key(shared, "other", "--max-builds", "9"))
    operator = Client(shared)
    made, _ = ours.build("private")
    where = f"/templates/private/builds/{made['buildID']}"
    secret = next(t for t in os.listdir(shared.home / "templates") if t.startswith("private@"))
    for answer in (other("GET", f"{where}/status"), other("GET", f"{where}/logs"), other("GET", "/templates/private"),
                   other("GET", "/templates/aliases/private"), other("GET", "/templates/private/tags"),
                   other("DELETE", "/templates/private"), other("PATCH", "/v2/templates/private", {"public": True}),
                   other("GET", f"/templates/private/files/{HASH}"),
                   other("POST", "/templates/tags", {"target": "private", "tags": ["x"]}),
                   other("DELETE", "/templates/tags", {"name": "private", "tags": ["default"]}),
                   other("POST", "/sandboxes", {"templateID": "private"}),
                   other("POST", "/sandboxes", {"templateID": secret})):
        refused(answer, 404)
    refused(other("POST", "/v3/templates", {"name": "private"}), 403, "private")
    refused(other("POST", "/v3/templates", {"name": "default"}), 403, "default")
    assert "private" not in {t["templateID"] for t in other("GET", "/templates").json}
    assert "private" in {t["templateID"] for t in operator("GET", "/templates").json}
    theirs = other.request("theirs")
    refused(other.start(theirs, fromTemplate="private"), 404, "private")
    # published, everybody may use it, and only its owner may change it
    assert ours("PATCH", "/v2/templates/private", {"public": True}).json == {"names": ["private"]}
    sandbox = other("POST", "/sandboxes", {"templateID": "private"})
    assert sandbox.status == 201
    shared.kill(sandbox.json["sandboxID"])
    refused(other("DELETE", "/templates/private"), 403, "cannot change")
    wait_for(lambda: operator("DELETE", "/templates/private").status == 204, 10, "the operator may")


def test_credentials_stay_in_one_file(shared):
    client = Client(shared, key(shared, "registry", "--max-builds", "9"))
    made = client.request("app")
    credentials = {"type": "registry", "username": "robot", "password": "s3cr3t-word"}
    go = shared.home / "go"
    answer = client.start(made, "echo on", f"wait {go}", fromTemplate=None, fromImage="ghcr.io/a/b:1",
                          fromImageRegistry=credentials)
    assert answer.status == 202
    wait_for(lambda: "on" in messages(client.status(made)), 20, "it runs")
    where = shared.home / "builds" / made["buildID"]
    auth = where / "auth.json"
    assert json.loads(auth.read_text()) == {"auths": {"ghcr.io": {"auth": "cm9ib3Q6czNjcjN0LXdvcmQ="}}}
    assert auth.stat().st_mode & 0o777 == 0o600
    plan = json.loads((where / "plan.json").read_text())
    assert plan["stages"][0]["authfile"] == str(auth)
    go.touch()
    assert client.ended(made)["status"] == "ready"
    assert not auth.exists()
    kept = [p for p in where.rglob("*") if p.is_file()] + [shared.log, shared.home / "builds/names.json"]
    assert not [p for p in kept if b"s3cr3t-word" in p.read_bytes() or b"cm9ib3Q6" in p.read_bytes()]
