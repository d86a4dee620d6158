# SPDX-License-Identifier: Apache-2.0
"""A guest for cubby-netd without a virtual machine: a network namespace with a TAP device, whose
frames a relay passes as QEMU would. Needs root. No packet leaves the machine."""

import ctypes
import fcntl
import json
import os
import secrets
import socket
import struct
import subprocess
import sys
import threading
import time

import net_stats

NETD = os.path.join(os.environ.get("BIN", "build/bin"), "cubby-netd")
GUEST_IP = "10.0.2.15"
GUEST_MAC = "52:54:00:c0:bb:01"
libc = ctypes.CDLL(None, use_errno=True)


def sh(*command):
    subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for(condition, seconds=30, what="condition"):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"not in {seconds} s: {what}")


class Listener(socket.socket):
    """A listening socket that wakes the threads in accept before it is closed: otherwise a thread
    would go on waiting at the descriptor's number, and take a connection from the next socket with
    that number."""

    def close(self):
        try:
            self.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        super().close()


class Namespace:
    """A network namespace in which sockets can be made."""

    def __init__(self):
        self.name = "cubby-" + secrets.token_hex(4)
        sh("ip", "netns", "add", self.name)
        self.ip("link", "set", "lo", "up")

    def ip(self, *args):
        sh("ip", "-n", self.name, *args)

    def run(self, function, *args):
        """Calls function in a thread inside the namespace; its sockets stay there."""
        result = []

        def body():
            with open(f"/run/netns/{self.name}", "rb") as ns:
                if libc.setns(ns.fileno(), 0x40000000) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            try:
                result.append((function(*args), None))
            except Exception as e:  # handed on below
                result.append((None, e))

        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        value, error = result[0]
        if error:
            raise error
        return value

    def socket(self, kind=socket.SOCK_STREAM, family=socket.AF_INET, proto=0):
        return self.run(socket.socket, family, kind, proto)

    def listen(self, address="0.0.0.0", port=0, backlog=1024):
        s = self.run(Listener, socket.AF_INET, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        s.listen(backlog)
        s.settimeout(20)
        return s

    def connect(self, address, port, timeout=20):
        s = self.socket()
        s.settimeout(timeout)
        s.connect((address, port))
        return s

    def close(self):
        sh("ip", "netns", "del", self.name)


RELAY = r"""
import fcntl, os, select, socket, struct, sys
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH22x", b"eth0", 0x1002))
s = socket.socket(fileno=int(sys.argv[1]))
packets = s.type == socket.SOCK_SEQPACKET
for fd in (tap, s.fileno()):
    os.set_blocking(fd, False)
os.write(1, b"ready\n")
buf = bytearray()
out, most = ([], 64) if packets else (bytearray(), 1 << 20)
def send():
    while packets and out:
        s.send(out[0])
        del out[0]
    if out:
        del out[:s.send(out)]
def to_tap(frame):
    try:
        os.write(tap, frame)
    except OSError:
        pass
while True:
    r, w, _ = select.select([tap, s] if len(out) < most else [s], [s] if out else [], [])
    if tap in r:
        try:
            for _ in range(64):
                frame = os.read(tap, 70000)
                out += [frame] if packets else struct.pack(">I", len(frame)) + frame
        except BlockingIOError:
            pass
        except OSError:
            sys.exit(0)
    try:
        send()
    except BlockingIOError:
        pass
    except OSError:
        sys.exit(0)
    if s in r:
        data = s.recv(1 << 18)
        if not data:
            sys.exit(0)
        if packets:
            to_tap(data)
            continue
        buf += data
        at = 0
        while len(buf) - at >= 4:
            (n,) = struct.unpack_from(">I", buf, at)
            if len(buf) - at - 4 < n:
                break
            to_tap(buf[at + 4:at + 4 + n])
            at += 4 + n
        del buf[:at]
"""


class Netd:
    """A running cubby-netd. `peer` is the other end of the frames socket, and its kind chooses the
    framing: QEMU's stream, or a packet for each frame. With a policy it has a control socket, and
    accepts another policy later."""

    def __init__(self, directory, mode="public", namespace=None, resolv_conf=None, policy=None,
                 egress=None, policy_file=None, kind=socket.SOCK_STREAM, egress_use="hand"):
        self.path = os.path.join(directory, "vm.net")
        self.log_path = os.path.join(directory, "netd.log")
        self.peer, ours = socket.socketpair(socket.AF_UNIX, kind)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(self.path)
        listener.listen(1024)
        self.control_path = os.path.join(directory, "net.ctl")
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.bind(self.control_path)
        control.listen(16)
        self.stats_path = os.path.join(directory, "net.stats")
        counters = open(self.stats_path, "a+b")
        counters.truncate(net_stats.BYTES)
        fds = [ours.fileno(), listener.fileno(), control.fileno(), counters.fileno()]
        command = [NETD, "--frames-fd", str(fds[0]), "--listen-fd", str(fds[1]), "--mode", mode,
                   "--stats-fd", str(fds[3])]
        if egress is not None:
            fds.append(egress.fileno())
            command += ["--egress-fd", str(egress.fileno()), "--egress-use", egress_use]
        if policy is not None:
            command += ["--control-fd", str(fds[2]), "--policy", json.dumps(policy)]
        if policy_file is not None:
            fds.append(policy_file.fileno())
            command += ["--control-fd", str(fds[2]), "--policy-fd", str(policy_file.fileno())]
        if namespace:
            command = ["nsenter", f"--net=/run/netns/{namespace.name}", *command]
        if resolv_conf:
            command = ["unshare", "--mount", "sh", "-c",
                       f"mount --bind {resolv_conf} /etc/resolv.conf && exec \"$@\"", "sh", *command]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, pass_fds=fds, stderr=log)
        ours.close()
        listener.close()
        control.close()
        counters.close()

    def stats(self):
        """(counters, {reason: count}, refusals with the newest first)."""
        return net_stats.read_stats(self.stats_path)

    def reached(self):
        """The hosts that were reached, with the newest first."""
        return net_stats.read_reached(self.stats_path)

    def control(self, line, timeout=20, fds=()):
        """Send a line to the control socket. Return the answer, or None when netd hangs up without one."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
            s.settimeout(timeout)
            s.connect(self.control_path)
            if fds:
                socket.send_fds(s, [line[:1]], fds)
            s.sendall(line[1:] if fds else line)
            answer = read_line(s)
            assert not answer or not s.recv(1), "one line, then the end"
            return json.loads(answer) if answer else None

    def set_policy(self, policy):
        assert self.control(json.dumps({"policy": policy}).encode() + b"\n") == {}

    def set_egress(self, policy, egress, use="hand"):
        """A new policy, and a new egress (its socket) or none."""
        line = json.dumps({"policy": policy, "egress": use if egress else False}).encode() + b"\n"
        answer = self.control(line, fds=[egress.fileno()] if egress else ())
        assert answer == {"egress": use if egress else False}

    def dial(self, port, timeout=20):
        """Sends CONNECT; returns (socket, answer line)."""
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        s.settimeout(timeout)
        s.connect(self.path)
        s.sendall(b"CONNECT %d\n" % port)
        return s, read_line(s)

    def open(self, port, timeout=20):
        s, line = self.dial(port, timeout)
        assert line == b"OK\n", line
        return s

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def fds(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def status(self, key):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            for line in f:
                if line.startswith(key + ":"):
                    return int(line.split()[1])
        raise KeyError(key)

    def cpu_ticks(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    def close(self):
        """Ends as QEMU would: netd must end by itself, with status 0 and without an error message."""
        self.peer.close()
        try:
            status = self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        assert status == 0, f"netd ended with {status}:\n{self.log()}"
        for word in ("ERROR: ", "runtime error", "CRITICAL", "WARNING", "inward.limit"):
            assert word not in self.log(), self.log()


def read_line(s):
    line = b""
    while not line.endswith(b"\n"):
        c = s.recv(1)
        if not c:
            break
        line += c
    return line


class Guest(Namespace):
    """10.0.2.15, as the kernel of a virtual machine would be."""

    def __init__(self, netd, mtu=1500):
        super().__init__()
        netd.peer.set_inheritable(True)
        self.relay = subprocess.Popen(
            ["nsenter", f"--net=/run/netns/{self.name}", sys.executable, "-c", RELAY,
             str(netd.peer.fileno())], pass_fds=[netd.peer.fileno()], stdout=subprocess.PIPE)
        netd.peer.close()
        assert self.relay.stdout.readline() == b"ready\n"
        self.ip("link", "set", "eth0", "address", GUEST_MAC, "mtu", str(mtu))
        self.ip("link", "set", "eth0", "up")
        self.ip("addr", "add", GUEST_IP + "/24", "dev", "eth0")
        self.ip("route", "add", "default", "via", "10.0.2.2")

    def close(self):
        self.relay.kill()
        self.relay.wait()
        self.relay.stdout.close()
        super().close()


class World:
    """A separate host for netd, and beyond it a world with every kind of address: 8.8.4.4 is
    public, the others are not. Everything is reachable, so only netd can refuse."""

    HOST_IP = "8.8.4.1"
    PUBLIC = "8.8.4.4"
    DENIED = ["10.9.9.9", "172.16.5.5", "192.168.77.1", "100.64.3.3", "169.254.169.254",
              "198.18.0.9", "192.0.2.7", "198.51.100.7", "203.0.113.7", "168.63.129.16", "192.0.0.9"]

    def __init__(self):
        self.host = Namespace()
        self.world = Namespace()
        self.host.ip("link", "add", "w0", "type", "veth", "peer", "name", "h0", "netns", self.world.name)
        self.host.ip("addr", "add", self.HOST_IP + "/24", "dev", "w0")
        self.host.ip("link", "set", "w0", "up")
        self.world.ip("addr", "add", self.PUBLIC + "/24", "dev", "h0")
        self.world.ip("link", "set", "h0", "up")
        self.host.ip("route", "add", "default", "via", self.PUBLIC)
        for address in self.DENIED:
            self.world.ip("addr", "add", address + "/32", "dev", "lo")

    def close(self):
        self.host.close()
        self.world.close()


# ---- frames by hand

GATEWAY_MAC_BYTES = bytes.fromhex("52550a000202")
GUEST_MAC_BYTES = bytes.fromhex("525400c0bb01")
FIN, SYN, RST, ACK = 1, 2, 4, 16


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ipv4(proto, dst, payload, src=GUEST_IP, flags=0, options=b"", mac=GUEST_MAC_BYTES,
         ethertype=0x0800):
    head = struct.pack(">BBHHHBBH4s4s", 0x40 | (20 + len(options)) // 4, 0,
                       20 + len(options) + len(payload), 1, flags, 64, proto, 0,
                       socket.inet_aton(src), socket.inet_aton(dst)) + options
    head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
    return GATEWAY_MAC_BYTES + mac + struct.pack(">H", ethertype) + head + payload


def udp(sport, dport, data):
    return struct.pack(">HHHH", sport, dport, 8 + len(data), 0) + data


def tcp(dst, sport, dport, seq, ack, flags, data=b"", src=GUEST_IP, mss=None):
    options = b"" if mss is None else struct.pack(">BBH", 2, 4, mss)
    segment = struct.pack(">HHIIBBHHH", sport, dport, seq & 0xffffffff, ack & 0xffffffff,
                          (20 + len(options)) << 2, flags, 64000, 0, 0) + options + data
    pseudo = socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack(">BBH", 0, 6, len(segment))
    return segment[:16] + struct.pack(">H", checksum(pseudo + segment)) + segment[18:]


class Wire:
    """The guest's end of the frames socket, by hand."""

    def __init__(self, netd):
        self.peer = netd.peer
        self.packets = self.peer.type == socket.SOCK_SEQPACKET

    def send(self, frame):
        self.peer.sendall(frame if self.packets else struct.pack(">I", len(frame)) + frame)

    def receive(self, seconds=30):
        """The next frame, or None if none comes in time."""
        self.peer.settimeout(seconds)
        try:
            if self.packets:
                frame = self.peer.recv(1 << 17)
                assert frame, "netd closed the frames socket"
                return frame
            (length,) = struct.unpack(">I", self._exactly(4))
            return self._exactly(length)
        except socket.timeout:
            return None

    def _exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.peer.recv(count - len(data))
            assert more, "netd closed the frames socket"
            data += more
        return data

    def receive_tcp(self, seconds=30):
        """The next TCP segment: (sport, dport, seq, ack, flags)."""
        while True:
            frame = self.receive(seconds)
            if frame is None:
                return None
            if frame[12:14] == b"\x08\0" and frame[23] == 6:
                sport, dport, seq, ack = struct.unpack(">HHII", frame[34:46])
                return sport, dport, seq, ack, frame[47] & 0x3f
