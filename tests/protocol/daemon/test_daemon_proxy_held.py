# SPDX-License-Identifier: Apache-2.0
"""Requests that wait: until a Python kernel has been started again, and until it is known how a
machine ended.
"""

import os
import signal

import pytest

from cubbyd import Daemon, Guest, closed_port, read_head, wait_for
from cubbyd_fixtures import daemon, shared  # noqa: F401 (fixtures)
from harness import Later, process_exists

KERNEL = 49999
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


def set_kernel(daemon, sandbox, port):
    place = daemon.directory(sandbox) / "kernel-port"
    part = place.with_suffix(".part")
    part.write_text(str(port))
    part.rename(place)


@pytest.fixture(name="closed")
def fixture_closed():
    with closed_port() as s:
        yield s.getsockname()[1]


def away(daemon, closed):
    """A sandbox whose kernel does not listen."""
    daemon.template("python", python=True)
    made = daemon.create(templateID="python")
    set_kernel(daemon, made["sandboxID"], closed)
    return made


@pytest.fixture(name="made")
def fixture_made(daemon, closed):
    return away(daemon, closed)


def execute(daemon, made, **more):
    return daemon.through(made["sandboxID"], "POST", "/execute", b'{"code": "1"}', port=KERNEL,
                          token=made["envdAccessToken"], timeout=90, **more)


def held(daemon, made):
    """A run that waits for the kernel."""
    run = Later(lambda: execute(daemon, made))
    wait_for(lambda: daemon.connects(made["sandboxID"]).count(KERNEL) > 2, what="it is tried again")
    assert run.is_alive()
    return run


def test_a_run_waits_for_a_kernel_that_is_started_again(daemon, made):
    heads = []

    def serve(connection):
        heads.append(read_head(connection)[0])
        connection.sendall(OK)

    run = held(daemon, made)
    with Guest(serve) as kernel:
        set_kernel(daemon, made["sandboxID"], kernel.port)
        answer = run.join()
        assert (answer.status, answer.body) == (200, b"ok")
    assert len(heads) == 1 and heads[0].startswith("POST /execute "), "it was sent once"


def test_it_is_told_when_the_kernel_does_not_come_back(daemon, made):
    answer = execute(daemon, made)
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    told = answer.json
    assert (told["error_code"], told["port"], told["code"]) == ("kernel_starting", KERNEL, 503)
    assert "Python kernel of the sandbox ended" in told["message"]
    assert "variables are lost" in told["message"]


def test_where_there_is_no_kernel_nothing_waits(daemon, closed):
    made = daemon.create()
    set_kernel(daemon, made["sandboxID"], closed)
    answer = execute(daemon, made)
    assert (answer.status, answer.json["message"]) == (502, "The sandbox is running but port is not open")
    assert daemon.connects(made["sandboxID"]).count(KERNEL) == 1


def test_what_waits_ends_with_the_sandbox(daemon, made):
    run = held(daemon, made)
    assert daemon.kill(made["sandboxID"]) == 204
    answer = run.join()
    assert (answer.status, answer.json["error_code"]) == (502, "sandbox_ended")


def test_what_waits_is_not_held_over_a_pause(daemon, made):
    run = held(daemon, made)
    assert daemon.request("POST", f"/sandboxes/{made['sandboxID']}/pause", {}).status == 204
    assert run.join().json["error_code"] == "sandbox_in_transition"


def test_who_leaves_while_it_waits(daemon, made):
    before = daemon.fds()
    s = daemon.open(made["sandboxID"], KERNEL, "GET /contexts HTTP/1.1")
    wait_for(lambda: daemon.connects(made["sandboxID"]).count(KERNEL) > 2, what="it is tried again")
    s.close()
    wait_for(lambda: daemon.fds() <= before, what="nothing of it is left")


def test_that_a_sandbox_has_a_kernel_outlives_the_daemon(closed):
    with Daemon() as daemon:
        made = away(daemon, closed)
        daemon.stop(signal.SIGKILL)
        daemon.start()
        run = held(daemon, made)
        with Guest(lambda connection: (read_head(connection), connection.sendall(OK))) as kernel:
            set_kernel(daemon, made["sandboxID"], kernel.port)
            assert run.join().status == 200
        assert daemon.kill(made["sandboxID"]) == 204


def test_a_machine_that_has_ended_is_told_as_such(daemon):
    """From the moment of its end, also before the daemon has noticed it."""
    made = daemon.create()
    pid = daemon.machine(made["sandboxID"])
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not process_exists(pid), what="it is dead")
    answer = daemon.through(made["sandboxID"], port=8000)
    assert answer.status == 502 and answer.json.get("error_code") == "sandbox_ended", answer.body
    assert str(daemon.home) not in answer.body.decode()


def test_no_message_holds_a_path_of_the_host():
    with Daemon() as daemon:
        (daemon.home / "sandboxes").rmdir()
        (daemon.home / "sandboxes").write_text("no directory")
        answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default"})
        (daemon.home / "sandboxes").unlink()
        assert answer.status >= 400 and "$CUBBY_HOME/sandboxes" in answer.json["message"]
        assert str(daemon.home) not in answer.body.decode()
