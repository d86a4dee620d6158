# SPDX-License-Identifier: Apache-2.0
"""cubby-netd as a program: its options, its frames socket, its end, and how fast it is ready."""

import socket
import statistics
import struct
import subprocess
import time

from netd_guest import GUEST_MAC_BYTES, NETD, Netd, Wire


def test_help_and_version():
    text = subprocess.run([NETD, "--help"], capture_output=True, check=True, text=True).stdout
    for option in ("--frames-fd", "--listen-fd", "--mode", "--policy", "--policy-fd", "--log-fd"):
        assert option in text
    assert subprocess.run([NETD, "--version"], capture_output=True, check=True).stdout.startswith(b"cubby-netd ")


def test_wrong_options():
    for args in ([], ["--frames-fd", "3"], ["--mode", "all"], ["extra"], ["--frames-fd", "x"],
                 ["--frames-fd", "3", "--listen-fd", "4", "--policy", "{}", "--policy-fd", "5"]):
        done = subprocess.run([NETD, *args], capture_output=True, check=False)
        assert done.returncode == 2 and done.stderr, args
    done = subprocess.run([NETD, "--frames-fd", "77", "--listen-fd", "78"], capture_output=True, check=False)
    assert done.returncode == 1 and done.stderr


def test_wrong_policies_by_descriptor(tmp_path):
    for name, text in ("none", ""), ("half", "{"), ("long", " " * (256 * 1024) + "{}"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy").write_text(text)
        with open(tmp_path / name / "policy", "rb") as f:
            netd = Netd(tmp_path / name, policy_file=f)
        assert netd.process.wait(30) == 1 and "--policy-fd: " in netd.log(), name
        netd.peer.close()


def test_arp(tmp_path):
    netd = Netd(tmp_path, mode="none")
    wire = Wire(netd)
    asked = wire.receive()
    assert asked[:6] == b"\xff" * 6 and asked[12:14] == b"\x08\x06", "netd asks for the guest first"
    for last in (2, 3):
        wire.send(b"\xff" * 6 + GUEST_MAC_BYTES + b"\x08\x06" +
                  struct.pack(">HHBBH", 1, 0x800, 6, 4, 1) + GUEST_MAC_BYTES +
                  bytes([10, 0, 2, 15]) + bytes(6) + bytes([10, 0, 2, last]))
        answer = wire.receive()
        assert answer[22:32] == bytes([0x52, 0x55, 10, 0, 2, last, 10, 0, 2, last])
    netd.close()


def test_end_of_qemu_is_the_end(tmp_path):
    Netd(tmp_path).close()


def test_broken_framing_is_a_failure(tmp_path):
    netd = Netd(tmp_path)
    netd.peer.sendall(b"\xff\xff\xff\xff")
    assert netd.process.wait(10) == 1
    assert "not QEMU's framing" in netd.log()
    netd.peer.close()


def test_log_fd(tmp_path):
    with open(tmp_path / "other.log", "wb") as log:
        peer, ours = socket.socketpair()
        process = subprocess.Popen([NETD, "--frames-fd", str(ours.fileno()), "--listen-fd", str(ours.fileno()),
                                    "--log-fd", str(log.fileno())], pass_fds=[ours.fileno(), log.fileno()],
                                   stderr=subprocess.PIPE)
        ours.close()
        peer.close()
        assert process.communicate(timeout=10)[1] == b""
    assert b"netd.end" in (tmp_path / "other.log").read_bytes()


def test_idle_netd_sleeps(tmp_path):
    netd = Netd(tmp_path, mode="none")
    Wire(netd).receive()
    before = netd.status("voluntary_ctxt_switches")
    time.sleep(1.5)
    assert netd.status("voluntary_ctxt_switches") - before <= 5, "it has a timer of less than 0.3 s"
    netd.close()


def test_start_is_quick(tmp_path):
    times = []
    for i in range(10):
        directory = tmp_path / str(i)
        directory.mkdir()
        start = time.perf_counter()
        netd = Netd(directory)
        Wire(netd).receive()
        times.append(time.perf_counter() - start)
        netd.close()
    print(f"start to first frame: {statistics.median(times) * 1000:.1f} ms")
    assert statistics.median(times) < 0.5
