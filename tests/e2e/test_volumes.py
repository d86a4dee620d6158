# SPDX-License-Identifier: Apache-2.0
"""Volumes in real sandboxes (E2B's volumeMounts): several at once on one, what they survive, their limit, and
who may mount and remove them. E2B's own SDKs mount them, too.
"""

import http.client
import json
import os
import signal
import subprocess
import urllib.parse

import pytest

from cubbyd import wait_for
from harness import BIN
from sdk import CLIENTS, NODE, OURS, KEY, RealGuests
from tiers import tier  # noqa: F401

MB = 1 << 20
LIMIT = 16 * MB


@pytest.fixture(scope="module")
def daemon(tier):  # noqa: F811
    with RealGuests("--max-volume-size", "16M", tier=tier) as d:
        yield d


def new_volume(daemon, name):
    answer = daemon.request("POST", "/volumes", {"name": name})
    assert answer.status == 201, answer.body
    return answer.json


def start(daemon, *mounts, status=201, **more):
    """A sandbox with these (volume's name, path)."""
    body = {"templateID": "default", "timeout": 900, **more,
            "volumeMounts": [{"name": name, "path": path} for name, path in mounts]}
    answer = daemon.request("POST", "/sandboxes", body, timeout=180)
    assert answer.status == status, answer.body
    return answer.json


def url(sandbox, what=""):
    return f"/sandboxes/{sandbox['sandboxID']}{what}"


def run(daemon, sandbox, command, status=0):
    code, text = daemon.command(sandbox, f"exec 2>&1; {command}")
    assert code == status, (command, code, text)
    return text.decode()


def data_of(daemon, volume):
    return daemon.home / "volumes" / volume["volumeID"] / "data"


def content(daemon, volume, method, what, path, body=None):
    query = urllib.parse.urlencode({"path": path})
    return daemon.request(method, f"/volumecontent/{volume['volumeID']}/{what}?{query}", body,
                          {"Authorization": "Bearer " + volume["token"]})


def taken(path):
    return sum(max(os.lstat(os.path.join(where, name)).st_blocks * 512, 4096)
               for where, _, names in os.walk(path) for name in names)


def drop(daemon, volume, *sandboxes):
    for sandbox in sandboxes:
        daemon.kill(sandbox["sandboxID"])
    answer = daemon.request("DELETE", f"/volumes/{volume['volumeID']}")
    assert answer.status == 204, answer.body


def test_two_sandboxes_on_one_volume(daemon):
    volume = new_volume(daemon, "shared")
    one, two = start(daemon, ("shared", "/data")), start(daemon, ("shared", "/mnt/other"))
    assert daemon.request("GET", url(one)).json["volumeMounts"] == [{"name": "shared", "path": "/data"}]
    listed = {s["sandboxID"]: s["volumeMounts"] for s in daemon.request("GET", "/v2/sandboxes").json}
    assert listed[two["sandboxID"]] == [{"name": "shared", "path": "/mnt/other"}]
    run(daemon, one, "mkdir -p /data/d && echo from one >/data/d/a && chmod 750 /data/d/a && echo S=1 >/data/.env")
    assert run(daemon, two, "cat /mnt/other/d/a; stat -c '%U %a' /mnt/other/d/a; cat /mnt/other/.env") == (
        "from one\nuser 750\nS=1\n")
    assert content(daemon, volume, "GET", "file", "/d/a").body == b"from one\n"
    assert content(daemon, volume, "GET", "path", "/d/a").json["mode"] == 0o750
    assert content(daemon, volume, "PUT", "file", "/up", b"from the API").status == 201
    wait_for(lambda: daemon.command(one, "cat /data/up")[1] == b"from the API", 60, "the upload")
    # Both append to one file at the same time.
    loop = "for i in $(seq 60); do echo {name} $i >>{path}/log; done"
    waits = [daemon.open_command(s, loop.format(name=n, path=p)) for s, n, p in ((one, "one", "/data"),
                                                                                 (two, "two", "/mnt/other"))]
    for s in waits:
        while s.recv(65536):
            pass
        s.close()
    lines = (data_of(daemon, volume) / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{name} {i}" for name in ("one", "two") for i in range(1, 61))
    refused = daemon.request("DELETE", f"/volumes/{volume['volumeID']}")
    assert refused.status == 409 and "is mounted in sandbox" in refused.json["message"]
    drop(daemon, volume, one, two)


def test_a_file_that_is_made_for_appending(daemon):
    """gVisor says only in each write that the file is open for appending."""
    volume = new_volume(daemon, "grows")
    sandbox = start(daemon, ("grows", "/data"))
    data = data_of(daemon, volume)
    code = ("import os, time; f = os.open('/data/log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)\n"
            "while not os.path.exists('/data/written'): time.sleep(0.1)\n"
            "os.write(f, b'guest\\n')")
    writing = daemon.open_command(sandbox, f'python3 -c "{code}"')
    wait_for(lambda: (data / "log").exists(), 60, "the file is made")
    with (data / "log").open("ab") as log:
        log.write(b"host\n")
    (data / "written").touch()
    while writing.recv(65536):
        pass
    writing.close()
    assert (data / "log").read_bytes() == b"host\nguest\n"
    drop(daemon, volume, sandbox)


def test_the_list_of_the_command_line(daemon):
    volume = new_volume(daemon, "listed")
    sandbox = start(daemon, ("listed", "/data"))
    done = subprocess.run([BIN / "cubby", "mount", sandbox["sandboxID"]], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, CUBBY_HOME=str(daemon.home)))
    assert done.stdout.splitlines()[1].split() == ["/data", "volume", "listed", "write", "ready"], done.stderr
    drop(daemon, volume, sandbox)


def test_no_path_of_the_host_is_told(daemon):
    volume = new_volume(daemon, "quiet")
    sandbox = start(daemon, ("quiet", "/data"))
    home = str(daemon.home)
    told = [daemon.request("GET", url(sandbox, what)).body.decode() for what in ("", "/mounts", "/logs")]
    told.append(run(daemon, sandbox, "cat /proc/mounts; ls -la /data; df /data; ps axww"))
    for text in told:
        assert home not in text and volume["volumeID"] not in text
    assert json.loads(told[1])[0]["volume"] == "quiet" and "source" not in json.loads(told[1])[0]
    drop(daemon, volume, sandbox)


def test_the_limit_holds_for_all_together(daemon):
    volume = new_volume(daemon, "small")
    one, two = start(daemon, ("small", "/data")), start(daemon, ("small", "/data"))
    assert run(daemon, one, "df -B1 --output=size /data | tail -1").strip() == str(LIMIT)
    waits = [daemon.open_command(s, f"dd if=/dev/zero of=/data/{n} bs=64k count=400; true")
             for s, n in ((one, "one"), (two, "two"))]
    for s in waits:
        while s.recv(65536):
            pass
        s.close()
    assert LIMIT - MB < taken(data_of(daemon, volume)) <= LIMIT
    assert "No space left" in run(daemon, one, "echo x >/data/x; dd if=/dev/zero of=/data/y bs=1M count=2", status=1)
    assert content(daemon, volume, "PUT", "file", "/up", b"x" * MB).status == 507
    # A file that is removed while it is open keeps its room.
    run(daemon, two, "(exec 3</data/two; rm /data/two; touch /tmp/open; while [ -e /tmp/open ]; do sleep 0.1; done) "
                     ">/dev/null 2>&1 & while [ ! -e /tmp/open ]; do sleep 0.1; done")
    assert "No space left" in run(daemon, one, "dd if=/dev/zero of=/data/y bs=1M count=12", status=1)
    assert taken(data_of(daemon, volume)) <= LIMIT
    run(daemon, one, "rm -f /data/one /data/x /data/y")
    run(daemon, two, "rm /tmp/open")
    wait_for(lambda: daemon.command(one, "dd if=/dev/zero of=/data/y bs=1M count=12")[0] == 0, 90, "room again")
    drop(daemon, volume, one, two)


WRITER = ("rm -f /tmp/in; mkfifo /tmp/in; (exec 3<>/tmp/in; exec 4>>/data/log; "
          "while read -r line <&3; do echo $line >&4; done) >/dev/null 2>&1 &")


def test_it_survives_sleep_restart_fork_and_snapshot(daemon):
    volume = new_volume(daemon, "kept")
    made = start(daemon, ("kept", "/data"))
    log = data_of(daemon, volume) / "log"
    run(daemon, made, WRITER)
    for depth in ("freeze", "hibernate"):
        assert daemon.request("POST", url(made, "/pause"), {"depth": depth}, timeout=120).status == 204
        assert daemon.request("DELETE", f"/volumes/{volume['volumeID']}").status == 409, "a sleeper has it, too"
        assert daemon.request("POST", url(made, "/resume"), {"timeout": 900}, timeout=120).status == 201
        run(daemon, made, f"echo {depth} >/tmp/in")
        wait_for(lambda: log.exists() and log.read_text().endswith(f"{depth}\n"), 60, depth)
    daemon.stop(signal.SIGKILL)
    daemon.start()
    run(daemon, made, "echo restart >/tmp/in")
    wait_for(lambda: log.read_text() == "freeze\nhibernate\nrestart\n", 60, "the line after the restart")
    assert daemon.request("GET", url(made)).json["volumeMounts"] == [{"name": "kept", "path": "/data"}]
    for mounts, kept in (("volumes", True), ("none", False)):
        answer = daemon.request("POST", url(made, "/fork"), {"timeout": 600, "mounts": mounts}, timeout=120)
        assert answer.status == 201, answer.body
        child = answer.json[0]["sandbox"]
        if kept:
            run(daemon, child, "echo child >>/data/log")
            assert log.read_text().endswith("child\n")
        else:
            wait_for(lambda: "/data" not in run(daemon, child, "cat /proc/mounts"), 60, "unmounted")
        shown = daemon.request("GET", url(child)).json["volumeMounts"]
        assert shown == ([{"name": "kept", "path": "/data"}] if kept else [])
        daemon.kill(child["sandboxID"])
    snapshot = daemon.request("POST", url(made, "/snapshots"), {}, timeout=120).json["snapshotID"]
    again = start(daemon, ("kept", "/data"), templateID=snapshot)
    wait_for(lambda: daemon.command(again, "grep -c . /data/log")[1].strip() == b"4", 60, "the files")
    run(daemon, again, "echo again >>/data/log")
    wait_for(lambda: log.read_text().endswith("again\n"), 60, "the line")
    without = start(daemon, templateID=snapshot)
    wait_for(lambda: "/data" not in run(daemon, without, "cat /proc/mounts"), 60, "unmounted")
    drop(daemon, volume, made, again, without)
    assert daemon.request("DELETE", f"/templates/{snapshot}").status == 204


def test_a_volume_that_became_a_link(daemon):
    volume = new_volume(daemon, "led")
    data = data_of(daemon, volume)
    data.rename(data.with_name("aside"))
    data.symlink_to("/etc")
    before = len(daemon.request("GET", "/v2/sandboxes").json)
    answer = start(daemon, ("led", "/data"), status=500)
    assert 'volume "led" could not be mounted' in answer["message"] and str(daemon.home) not in json.dumps(answer)
    wait_for(lambda: len(daemon.request("GET", "/v2/sandboxes").json) == before, 60, "no sandbox is left")
    data.unlink()
    data.with_name("aside").rename(data)
    sandbox = start(daemon, ("led", "/data"))
    # And under a running one: its next server finds it.
    data.rename(data.with_name("aside"))
    data.symlink_to("/etc")
    daemon.stop(signal.SIGKILL)
    daemon.start()
    wait_for(lambda: daemon.request("GET", url(sandbox, "/mounts")).json[0].get("error"), 60, "the error")
    assert "hostname" not in run(daemon, sandbox, "timeout 5 ls /data; true")
    data.unlink()
    data.with_name("aside").rename(data)
    wait_for(lambda: daemon.command(sandbox, "echo x >/data/x")[0] == 0, 120, "served again")
    drop(daemon, volume, sandbox)


@pytest.mark.parametrize("mounts, words", [
    ([("none", "/a")], "volume 'none' not found"), ([("mine", "a")], "absolute path"),
    ([("mine", "/a/../b")], "absolute path"), ([("mine", "/etc")], "guest itself"),
    ([("mine", "/a"), ("mine", "/a")], "already used"), ([("mine", f"/{i}") for i in range(9)], "8 mounts")])
def test_refusals(daemon, mounts, words):
    volume = new_volume(daemon, "mine")
    assert words in start(daemon, *mounts, status=400)["message"]
    drop(daemon, volume)


def ask_with_key(daemon, method, path, body=None):
    connection = http.client.HTTPConnection(*daemon.url.removeprefix("http://").split(":"), timeout=180)
    try:
        connection.request(method, path, body and json.dumps(body), {"X-API-KEY": KEY})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        connection.close()


def test_a_key_mounts_its_own_volumes_only(daemon):
    ours = new_volume(daemon, "one-name")
    body = {"templateID": "default", "volumeMounts": [{"name": "one-name", "path": "/data"}]}
    status, answer = ask_with_key(daemon, "POST", "/v2/sandboxes", body)
    assert status == 400 and "'one-name' not found" in answer["message"]
    status, theirs = ask_with_key(daemon, "POST", "/volumes", {"name": "one-name"})
    assert status == 201
    status, made = ask_with_key(daemon, "POST", "/v2/sandboxes", body)
    assert status == 201, made
    run(daemon, made, "echo theirs >/data/a")
    assert (data_of(daemon, theirs) / "a").read_text() == "theirs\n" and os.listdir(data_of(daemon, ours)) == []
    status, forks = ask_with_key(daemon, "POST", url(made, "/fork"), {"timeout": 60})
    assert status == 201 and run(daemon, forks[0]["sandbox"], "cat /data/a") == "theirs\n"
    daemon.kill(forks[0]["sandbox"]["sandboxID"])
    assert ask_with_key(daemon, "DELETE", f"/volumes/{ours['volumeID']}")[0] == 404
    drop(daemon, ours)
    daemon.kill(made["sandboxID"])
    assert ask_with_key(daemon, "DELETE", f"/volumes/{theirs['volumeID']}")[0] == 204


PYTHON_PROGRAM = """
from e2b import Sandbox, Volume
volume = Volume.create("sdk")
volume.write_file("/note", "from the API")
with Sandbox.create(timeout=300, volume_mounts={"/data": volume}) as one:
    with Sandbox.create(timeout=300, volume_mounts={"/mnt/x": "sdk"}) as two:
        assert one.get_info().volume_mounts == [{"name": "sdk", "path": "/data"}]
        assert one.commands.run("cat /data/note").stdout == "from the API"
        one.files.write("/data/b", "from one")
        assert two.files.read("/mnt/x/b") == "from one"
        assert volume.read_file("/b") == "from one"
        try:
            Volume.destroy(volume.volume_id)
        except Exception as error:
            assert "is mounted in sandbox" in str(error), error
        else:
            raise AssertionError("destroyed")
        two.kill()
    one.kill()
assert Volume.destroy(volume.volume_id)
print("done")
"""

JS_PROGRAM = """
import assert from 'node:assert'
import { createRequire } from 'node:module'
const { Sandbox, Volume } = createRequire(process.env.CLIENTS + '/package.json')('e2b')
const volume = await Volume.create('sdk')
await volume.writeFile('/note', 'from the API')
const one = await Sandbox.create({ timeoutMs: 300_000, volumeMounts: { '/data': volume } })
const two = await Sandbox.create({ timeoutMs: 300_000, volumeMounts: { '/mnt/x': 'sdk' } })
assert.deepEqual((await one.getInfo()).volumeMounts, [{ name: 'sdk', path: '/data' }])
assert.equal((await one.commands.run('cat /data/note')).stdout, 'from the API')
await one.files.write('/data/b', 'from one')
assert.equal(await two.files.read('/mnt/x/b'), 'from one')
assert.equal(await volume.readFile('/b'), 'from one')
await assert.rejects(Volume.destroy(volume.volumeId), /is mounted in sandbox/)
await one.kill()
await two.kill()
assert.equal(await Volume.destroy(volume.volumeId), true)
console.log('done')
"""


@pytest.mark.parametrize("words", [[CLIENTS / "e2b/bin/python", "-c", PYTHON_PROGRAM],
                                   [NODE, "--input-type=module", "-e", JS_PROGRAM]], ids=["python", "js"])
def test_sdks(daemon, words):
    environment = {k: v for k, v in os.environ.items() if k not in OURS}
    environment |= {"CLIENTS": str(CLIENTS), "E2B_VOLUME_API_URL": daemon.url, **daemon.variables()}
    done = subprocess.run(words, env=environment, text=True, capture_output=True, timeout=400)
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr[-3000:]
