# SPDX-License-Identifier: Apache-2.0
"""The microvm driver alone, with real QEMU: restore, adopt, kill, and each way to end by itself.

Drives tests/lib/drivers/machine_shell.c, which is the driver with commands on stdin.
"""

import base64
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import process_exists, wait_for
from machine_fixtures import shell, shells  # noqa: F401
from machine_peer import (ID, TEMPLATE, adopt, answers, connect, health, left_behind, one_word, output_of,
                          start_in_guest)
from proc import descriptors


def test_facts(shell, tmp_path):
    facts = shell.ask("facts", "facts", TEMPLATE)
    recorded = json.loads((TEMPLATE / "template.json").read_text())
    assert {k: facts[k] for k in ("cpus", "memory_mb", "disk_mb", "accel")} == \
        {k: recorded[k] for k in ("cpus", "memory_mb", "disk_mb", "accel")}
    # QEMU's version is asked once for each binary, not for each machine.
    assert min(shell.ask("facts", "facts", TEMPLATE)["ms"] for _ in range(20)) < 3


@pytest.mark.parametrize("change, words", [
    ({"qemu": "1.2.3"}, ["QEMU 1.2.3", "cubby template build default"]),
    ({"format": 99}, ["cubby template build"]),
])
def test_template_that_does_not_fit(shell, tmp_path, change, words):
    other = tmp_path / "default"
    other.mkdir()
    for name in ("memory", "vmstate", "disk.ext4", "overlay.qcow2"):
        (other / name).symlink_to(TEMPLATE / name)
    recorded = json.loads((TEMPLATE / "template.json").read_text())
    (other / "template.json").write_text(json.dumps(recorded | change))
    shell.dir.mkdir()
    for command in (("facts", other), ("create", ID, shell.dir, other, "none")):
        failed = shell.ask("failed", *command)
        assert all(word in failed["error"] for word in words), failed
    assert list(shell.dir.iterdir()) == []


def test_template_that_is_not_there_or_not_whole(shell, tmp_path):
    assert "cubby template build" in shell.ask("failed", "facts", tmp_path / "none")["error"]
    other = tmp_path / "default"
    other.mkdir()
    shutil.copy(TEMPLATE / "template.json", other)
    failed = shell.ask("failed", "facts", other)
    assert "incomplete" in failed["error"] and failed["connect"] == "not_found"


def test_create_use_kill(shell):
    ready = shell.create()
    assert health(ready["vmnet"]) == 204
    qemu, netd = shell.pids()
    for path in ("qmp.sock", "vm.net", "net.ctl", "disk.qcow2"):
        assert (shell.dir / path).stat().st_mode & 0o077 == 0, path
    # Sessions of their own, and nothing inherited but what they need.
    for pid in (qemu, netd):
        assert os.getsid(pid) == pid
        targets = descriptors(pid).values()
        assert not [t for t in targets if "shell.log" in t], targets
    shell.ask("gone", "kill")
    assert not process_exists(qemu) and not process_exists(netd)
    shell.silent()


def test_one_that_is_given_up_while_it_starts(shell):
    """The driver does not wait for it; the directory can be used again at once."""
    shell.dir.mkdir()
    shell.say(f"create {shell.id} {shell.dir} {TEMPLATE} none\nabandon")
    failed = shell.hear("failed")
    assert failed["connect"] == "canceled" and set(left_behind(shell.dir)) <= {shell.process.pid}, failed
    shutil.rmtree(shell.dir)
    assert health(shell.create()["vmnet"]) == 204
    shell.ask("gone", "kill")
    shell.silent()


def test_disk_is_its_own(shells):
    base = (TEMPLATE / "disk.ext4").stat()
    a = shells()
    assert output_of(a.create()["vmnet"], "echo hello > /root/x; sync; cat /root/x") == "hello\n"
    a.ask("gone", "kill")
    shutil.rmtree(a.dir)
    vmnet = a.create()["vmnet"]
    assert output_of(vmnet, "ls /root/x 2>/dev/null; echo none") == "none\n"
    a.ask("gone", "kill")
    after = (TEMPLATE / "disk.ext4").stat()
    assert (base.st_mtime_ns, base.st_size) == (after.st_mtime_ns, after.st_size)


def test_no_descriptor_leaks(shell):
    def round_trip():
        shell.create()
        shell.ask("gone", "kill")
        shutil.rmtree(shell.dir)
        return shell.ask("fds", "fds")["count"]

    first = round_trip()
    assert [round_trip() for _ in range(3)] == [first] * 3


def test_qemu_killed(shell):
    shell.create()
    qemu, netd = shell.pids()
    os.kill(qemu, signal.SIGKILL)
    assert shell.hear("exit")["reason"] == "QEMU was killed (signal 9)"
    assert not process_exists(netd)
    shell.silent()
    shell.ask("gone", "kill")
    shell.silent()


def test_netd_killed(shell):
    shell.create()
    qemu, netd = shell.pids()
    os.kill(netd, signal.SIGKILL)
    assert shell.hear("exit")["reason"] == "the sandbox's network process (cubby-netd) was killed (signal 9)"
    assert not process_exists(qemu)
    shell.ask("gone", "kill")


@pytest.mark.parametrize("script, reason", [
    ("echo c > /proc/sysrq-trigger", "guest kernel panic: sysrq triggered crash"),
    ("echo b > /proc/sysrq-trigger", "the guest rebooted"),
    ("echo o > /proc/sysrq-trigger", "the guest shut down"),
])
def test_guest_ends_itself(shell, script, reason):
    vmnet = shell.create()["vmnet"]
    qemu, netd = shell.pids()
    with start_in_guest(vmnet, script):
        assert shell.hear("exit")["reason"] == reason
    assert not process_exists(qemu) and not process_exists(netd)
    shell.ask("gone", "kill")


def test_kill_while_it_ends(shell):
    shell.create()
    qemu, _ = shell.pids()
    os.kill(qemu, signal.SIGKILL)
    shell.say("kill")
    events = [shell.lines.get(timeout=60)["event"] for _ in range(1)]
    if events == ["exit"]:  # it was quicker
        events.append(shell.lines.get(timeout=60)["event"])
    assert events in (["gone"], ["exit", "gone"])
    shell.silent()


def test_a_console_flood_is_bounded(shell):
    vmnet = shell.create()["vmnet"]
    qemu, _ = shell.pids()
    output_of(vmnet, "head -c 200000 /dev/zero | tr '\\0' x > /dev/ttyS0")
    files = {p.name: p.stat().st_size for p in shell.dir.iterdir()}
    assert set(files) == {"qmp.sock", "vm.net", "net.ctl", "net.stats", "disk.qcow2"}
    with start_in_guest(vmnet, "echo c > /proc/sysrq-trigger"):
        assert shell.hear("exit")["reason"] == "guest kernel panic: sysrq triggered crash"
    shell.ask("gone", "kill")


def test_host_disk_full(shells, shell):
    """The guest stands still, and goes on when there is room."""
    shell.dir.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", shell.dir], check=True)
    try:
        vmnet = shell.create()["vmnet"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            said = pool.submit(output_of, vmnet, "dd if=/dev/urandom of=/root/x bs=64k count=200 conv=fsync 2>/dev/null && "
                                                 "echo written")
            wait_for(lambda: "machine.disk_full" in (shells.place / "shell.log").read_text(), 60, "the disk is full")
            assert "the host's disk is full" in shell.ask("refused", "pause")["error"]
            subprocess.run(["mount", "-o", "remount,size=100m", shell.dir], check=True)
            assert said.result(60) == "written\n"
        shell.ask("done", "pause")
        shell.ask("done", "resume")
        shell.ask("gone", "kill")
    finally:
        subprocess.run(["umount", shell.dir], check=True)


@pytest.mark.parametrize("how", ["release", "sigkill"])
def test_adopt(shells, how):
    first = shells()
    vmnet = first.create()["vmnet"]
    record = first.record()
    assert output_of(vmnet, "echo kept > /tmp/x; cat /tmp/x") == "kept\n"
    if how == "release":
        first.ask("gone", "release")
    first.end()
    second = shells()
    assert adopt(second, record)["vmnet"] == vmnet
    assert second.record() == record
    assert output_of(vmnet, "cat /tmp/x") == "kept\n"
    second.end()
    third = shells()
    adopt(third, record)
    with start_in_guest(vmnet, "echo c > /proc/sysrq-trigger"):
        assert third.hear("exit")["reason"] == "guest kernel panic: sysrq triggered crash"
    third.ask("gone", "kill")


def test_adopted_is_watched_and_killed(shells):
    first = shells()
    first.create()
    record = first.record()
    first.end()
    second = shells()
    adopt(second, record)
    os.kill(record["qemu"]["pid"], signal.SIGKILL)
    assert second.hear("exit")["reason"] == "QEMU ended"
    second.ask("gone", "kill")

    shutil.rmtree(second.dir)
    third = shells()
    third.create()
    record = third.record()
    third.end()
    fourth = shells()
    adopt(fourth, record)
    fourth.ask("gone", "kill")
    assert not process_exists(record["qemu"]["pid"]) and not process_exists(record["netd"]["pid"])


@pytest.mark.parametrize("victim", ["qemu", "netd"])
def test_adopt_of_what_is_half_gone(shells, victim):
    first = shells()
    first.create()
    record = first.record()
    first.end()
    os.kill(record[victim]["pid"], signal.SIGKILL)
    wait_for(lambda: not process_exists(record[victim]["pid"]), 30, "it ends")
    second = shells()
    failed = adopt(second, record, "failed")
    assert failed["connect"] == "unavailable"
    assert ("QEMU" if victim == "qemu" else "network process") in failed["error"] or \
        "no longer runs" in failed["error"]
    assert not process_exists(record["qemu"]["pid"]) and not process_exists(record["netd"]["pid"])


def test_adopt_of_a_guest_that_ended_meanwhile(shells):
    first = shells()
    vmnet = first.create()["vmnet"]
    record = first.record()
    first.end()
    with start_in_guest(vmnet, "echo c > /proc/sysrq-trigger"):
        wait_for(lambda: not answers(vmnet), 120, "the guest has ended")
    second = shells()
    assert adopt(second, record, "failed")["error"] == "guest kernel panic: sysrq triggered crash"
    assert not process_exists(record["qemu"]["pid"])


def test_adopt_with_a_false_record(shells):
    first = shells()
    first.create()
    record = first.record()
    shell = shells()
    wrong_time = json.loads(json.dumps(record))
    wrong_time["qemu"]["start_time"] += 1
    wrong_time["netd"]["start_time"] += 1
    for false in (wrong_time, record | {"boot_id": "another"}, {}, record | {"qemu": {"pid": 1}},
                  {"boot_id": record["boot_id"], "qemu": {"pid": "x"}, "netd": []}):
        false.pop("netd", None)
        adopt(shell, false, "failed")
    assert process_exists(record["qemu"]["pid"]), "another's process must not be touched"
    assert health(first.dir / "vm.net") == 204
    first.ask("gone", "kill")


def test_sandbox_directory_that_cannot_be_used(shell, tmp_path):
    failed = shell.ask("failed", "create", ID, tmp_path / "missing", TEMPLATE, "none")
    assert "disk.qcow2" in failed["error"]
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    failed = shell.ask("failed", "create", ID, deep, TEMPLATE, "none")
    assert "too long" in failed["error"]
    assert shell.create()["vmnet"], "and the next one works"
    shell.ask("gone", "kill")


def test_qemu_that_cannot_load_the_state(shell, tmp_path):
    broken = tmp_path / "default"
    broken.mkdir()
    for name in ("memory", "disk.ext4", "overlay.qcow2", "template.json"):
        (broken / name).symlink_to(TEMPLATE / name)
    state = (TEMPLATE / "vmstate").read_bytes()
    (broken / "vmstate").write_bytes(state[: len(state) // 2])
    shell.dir.mkdir()
    failed = shell.ask("failed", "create", ID, shell.dir, broken, "none")
    assert "QEMU" in failed["error"], failed
    shell.silent()


# ---- pause and resume

class Counter:
    """A loop in the guest that counts and prints the count about every 10 ms; the newest number is kept."""

    SCRIPT = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"

    def __init__(self, vmnet):
        self.stream = start_in_guest(vmnet, self.SCRIPT)
        self.stream.settimeout(None)
        self.newest = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        rest = b""
        while chunk := self.stream.recv(65536):
            parts = (rest + chunk).split(b'"stdout":"')
            for part in parts[1:]:
                encoded, quote, _ = part.partition(b'"')
                if quote:
                    self.newest = int(base64.b64decode(encoded).split()[-1])
            rest = b'"stdout":"' + parts[-1] if b'"' not in parts[-1] and len(parts) > 1 else b""

    def await_more(self):
        seen = self.newest
        wait_for(lambda: self.newest > seen, 30, "the guest counts on")

    def settle(self):
        """Waits until everything that was on its way when the guest stopped has arrived: nothing
        more for a second."""
        while True:
            seen = self.newest
            time.sleep(1)
            if self.newest == seen:
                return seen

    def close(self):
        self.stream.shutdown(socket.SHUT_RDWR)
        self.stream.close()


def qemu_ticks(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def test_a_paused_machine_costs_nothing(shell):
    vmnet = shell.create()["vmnet"]
    qemu, _ = shell.pids()
    counter = Counter(vmnet)
    counter.await_more()
    assert shell.ask("done", "pause")["paused"]
    counter.settle()
    began, ticks = time.monotonic(), qemu_ticks(qemu)
    time.sleep(2)
    used, seconds = qemu_ticks(qemu) - ticks, time.monotonic() - began
    assert used < 10 * seconds, f"{used} ticks of the processor in {seconds:.1f} s"
    assert not shell.ask("done", "resume")["paused"]
    counter.close()
    shell.ask("gone", "kill")


def test_pause_stops_the_guest_and_resume_lets_it_go_on(shell):
    vmnet = shell.create()["vmnet"]
    counter = Counter(vmnet)
    counter.await_more()
    assert shell.ask("done", "pause")["paused"]
    stopped_at = counter.settle()
    time.sleep(2)  # in which it would count to a hundred and more
    assert counter.newest == stopped_at
    assert not shell.ask("done", "resume")["paused"]
    counter.await_more()
    assert counter.newest >= stopped_at
    assert shell.ask("done", "pause")["paused"], "and again"
    assert not shell.ask("done", "resume")["paused"]
    counter.await_more()
    counter.close()
    assert health(vmnet) == 204
    shell.ask("gone", "kill")


def test_pause_and_resume_out_of_turn(shell):
    vmnet = shell.create()["vmnet"]
    assert "not paused" in shell.ask("refused", "resume")["error"]
    shell.ask("done", "pause")
    refused = shell.ask("refused", "pause")
    assert "already paused" in refused["error"] and refused["connect"] == "aborted"
    # Several at once are served in their order, and checked when it is their turn.
    shell.process.stdin.write(b"resume\nresume\npolicy none\npause\nresume\n")
    shell.process.stdin.flush()
    heard = [shell.lines.get(timeout=60) for _ in range(5)]
    assert [h["event"] for h in heard] == ["done", "refused", "done", "done", "done"], heard
    assert "not paused" in heard[1]["error"]
    assert [h["paused"] for h in heard if h["event"] == "done"] == [False, False, True, False]
    assert health(vmnet) == 204
    shell.ask("gone", "kill")


@pytest.mark.parametrize("how", ["kill", "release"])
def test_request_that_the_end_overtakes(shell, how):
    shell.create()
    pids = shell.pids()
    shell.process.stdin.write(f"pause\nresume\n{how}\n".encode())
    shell.process.stdin.flush()
    heard = [shell.lines.get(timeout=60) for _ in range(3)]
    assert [h["event"] for h in heard] == ["refused", "refused", "gone"], heard
    assert heard[0]["connect"] == heard[1]["connect"] == "canceled"
    shell.silent()
    if how == "release":
        os.kill(pids[0], signal.SIGKILL)
        wait_for(lambda: not any(map(process_exists, pids)), 30, "QEMU and netd end")


def test_paused_machine_that_ends(shell):
    shell.create()
    qemu, _ = shell.pids()
    shell.ask("done", "pause")
    os.kill(qemu, signal.SIGKILL)
    assert shell.hear("exit")["reason"] == "QEMU was killed (signal 9)"
    assert "ending" in shell.ask("refused", "resume")["error"]
    shell.ask("gone", "kill")


def test_pause_that_the_end_overtakes(shell):
    shell.create()
    qemu, _ = shell.pids()
    os.kill(qemu, signal.SIGSTOP)  # so that it cannot answer before it is gone
    shell.say("pause")
    os.kill(qemu, signal.SIGKILL)
    refused = shell.hear("refused")
    assert refused["connect"] == "unavailable", refused
    assert shell.hear("exit")["reason"] == "QEMU was killed (signal 9)"
    shell.ask("gone", "kill")


def test_adopt_of_a_paused_machine(shells):
    first = shells()
    vmnet = first.create()["vmnet"]
    counter = Counter(vmnet)
    counter.await_more()
    first.ask("done", "pause")
    record = first.record()
    first.end()
    stopped_at = counter.settle()
    second = shells()
    adopt(second, record)
    assert "already paused" in second.ask("refused", "pause")["error"]
    assert counter.newest == stopped_at
    assert not second.ask("done", "resume")["paused"]
    counter.await_more()
    counter.close()
    second.ask("gone", "kill")


# ---- the policy while it runs

def reaches(vmnet, address):
    """The outcome of a connection from the guest: "refused" is netd's refusal; any other outcome
    means that netd let it pass."""
    said = output_of(vmnet, f"timeout 5 bash -c 'exec 3<>/dev/tcp/{address}/9' 2>&1; echo $?")
    return "refused" if "refused" in said else "goes out"


def netd_log(shell):
    _, netd = shell.pids()
    log = next(fd for fd, link in descriptors(netd).items() if "netd.log" in link)
    return pathlib.Path(f"/proc/{netd}/fd/{log}").read_text()


def test_policy_while_it_runs(shells):
    """203.0.113.1 belongs to nobody (RFC 5737) and is special, so it is refused unless a policy
    names it; it does not matter whether a packet to it arrives."""
    first = shells()
    vmnet = first.create(mode="none")["vmnet"]
    assert reaches(vmnet, "203.0.113.1") == "refused"
    named = '{"internet":false,"special":true,"allowOut":["203.0.113.0/24"]}'
    assert first.ask("done", "policy", named)["what"] == "policy"
    record = first.record()
    assert "allow=1" in netd_log(first)
    first.ask("refused", "policy", '{"denyOut":["nonsense"]}')
    first.ask("done", "pause")
    assert first.ask("done", "policy", '{"internet":true}')["paused"], "a paused one takes it too"
    assert not first.ask("done", "resume")["paused"]
    assert reaches(vmnet, "203.0.113.1") == "refused"
    first.end()
    second = shells()
    second.ask("ready", "adopt", ID, second.dir, TEMPLATE, one_word(record),
               '{"internet":false,"denyOut":["1.1.1.1"]}')
    assert "internet=0 allow=0 deny=1" in netd_log(second), "the adopter's policy holds"
    assert reaches(vmnet, "203.0.113.1") == "refused"
    assert health(vmnet) == 204
    second.ask("gone", "kill")
