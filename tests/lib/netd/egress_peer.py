# SPDX-License-Identifier: Apache-2.0
"""Both neighbours of cubby-egress: a netd that hands connections over, and TLS hosts whose
certificates come from a certificate authority of the tests. Everything is on loopback.
"""

import contextlib
import datetime
import ipaddress
import json
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from harness import BIN

import net_stats
from threaded import Threaded

EGRESS = BIN / "cubby-egress"
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates; its own certificate is in `path`."""

    def __init__(self, directory, name):
        self.directory = pathlib.Path(directory)
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.certificate = self._build(self.subject, self.key, ca=True)
        self.path = self.directory / f"{name}.pem"
        self.path.write_text(self.pem())

    def _build(self, subject, key, names=(), ca=False, days=30):
        now = datetime.datetime.now(datetime.timezone.utc)
        start = now - 90 * DAY
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(self.subject)
                   .public_key(key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(start).not_valid_after(now + days * DAY)
                   .add_extension(x509.BasicConstraints(ca, None), True)
                   .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
                   .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(
                       self.key.public_key()), False))
        if ca:
            usage = dict.fromkeys(("digital_signature", "content_commitment", "key_encipherment",
                                   "data_encipherment", "key_agreement", "crl_sign",
                                   "encipher_only", "decipher_only"), False)
            builder = builder.add_extension(x509.KeyUsage(key_cert_sign=True, **usage), True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(list(names)), False)
        return builder.sign(self.key, hashes.SHA256())

    def pem(self):
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def key_pem(self):
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                      serialization.NoEncryption()).decode()

    def pair(self, *names, days=30):
        """Files with a server's certificate and key for these names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, names[0])])
        alternatives = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                alternatives.append(x509.DNSName(name))
        certificate = self._build(subject, key, alternatives, days=days)
        with tempfile.NamedTemporaryFile(dir=self.directory, suffix=".pem", delete=False) as f:
            f.write(certificate.public_bytes(serialization.Encoding.PEM))
            f.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                      serialization.NoEncryption()))
        return f.name


def read_message(f, has_body=True):
    """(first line, [(name, value)], body) of an HTTP/1.1 message from a file, or None at its end."""
    line = f.readline()
    if not line:
        return None
    headers = []
    while (raw := f.readline()) not in (b"\r\n", b""):
        name, _, value = raw.decode("latin-1").partition(":")
        headers.append((name, value.strip()))
    lower = {name.lower(): value for name, value in headers}
    body = b""
    if not has_body:
        pass
    elif lower.get("transfer-encoding") == "chunked":
        while (size := int(f.readline().split(b";")[0], 16)):
            body += f.read(size)
            f.readline()
        while f.readline() not in (b"\r\n", b""):
            pass
    elif "content-length" in lower:
        body = f.read(int(lower["content-length"]))
        if len(body) < int(lower["content-length"]):
            raise EOFError("the body was cut short")
    elif line.startswith(b"HTTP/"):
        body = f.read()
    return line.decode("latin-1").rstrip("\r\n"), headers, body


def echo(connection, f):
    """Answers each request with a description of it, as JSON."""
    while (message := read_message(f)):
        line, headers, body = message
        answer = json.dumps({"line": line, "headers": headers, "body": body.decode("latin-1")})
        connection.server.requests.append(message)
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n{answer}".encode())


class Connection:
    """The argument of a host's behaviour: sendall, and the server."""

    def __init__(self, server, sock):
        self.server, self.sock, self.sendall = server, sock, sock.sendall


class Host(Threaded):
    """A server on loopback, with TLS when it has a certificate. `behave(connection, file)` is called
    for each connection, in a thread of its own."""

    def __init__(self, pair=None, behave=echo, address="127.0.0.1"):
        self.context = None
        if pair:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(pair)
            self.context.set_alpn_protocols(["h2", "http/1.1"])
        self.behave, self.requests, self.names, self.alpn = behave, [], [], []
        if self.context:
            self.context.sni_callback = lambda s, name, c: self.names.append(name)
        super().__init__(socket.create_server((address, 0)))

    def serve(self, connection):
        connection.settimeout(60)
        if self.context:
            connection = self.context.wrap_socket(connection, server_side=True)
            self.alpn.append(connection.selected_alpn_protocol())
        with contextlib.suppress(EOFError, ValueError), connection:  # cut short, also in a chunk
            with connection.makefile("rb") as f:
                self.behave(Connection(self, connection), f)


class Egress:
    """A running cubby-egress."""

    def __init__(self, ca, secrets, trust=None, rules=None, proxy=None):
        self.ca = ca
        config = {"ca": {"certificate": ca.pem(), "key": ca.key_pem()}, "secrets": secrets}
        if rules is not None:
            config["rules"] = rules
        if proxy is not None:
            config["proxy"] = proxy
        if trust:
            config["trust"] = str(trust)
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        out, into = os.pipe()
        self.config_pipe = os.readlink(f"/proc/self/fd/{out}")
        with tempfile.NamedTemporaryFile(dir=ca.directory, suffix=".stats", delete=False) as counters:
            counters.truncate(net_stats.BYTES)
            self.stats_path = counters.name
            self.process = subprocess.Popen(
                [EGRESS, "--connections-fd", str(its.fileno()), "--config-fd", str(out),
                 "--stats-fd", str(counters.fileno())],
                pass_fds=(its.fileno(), out, counters.fileno()), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        its.close()
        os.close(out)
        with os.fdopen(into, "w") as f:
            json.dump(config, f)
        self.socket, self.log = ours, b""
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        while (line := self.process.stderr.readline()):
            self.log += line

    def text(self):
        return self.log.decode("utf-8", "replace")

    def stats(self):
        """(counters, {reason: count}, refusals with the newest first)."""
        return net_stats.read_stats(self.stats_path)

    def hand(self, fd, name, address, port, tls):
        message = {"name": name, "address": address, "port": port, "tls": tls}
        socket.send_fds(self.socket, [json.dumps(message).encode()], [fd])

    def connect(self, name, port, tls=True, address="127.0.0.1"):
        """The guest's end of a connection, without TLS."""
        guest, given = socket.socketpair()
        with given:
            self.hand(given.fileno(), name, address, port, tls)
        guest.settimeout(60)
        return guest

    def connect_dial(self, port, address="127.0.0.1"):
        """netd's end of a connection that egress makes through the upstream proxy."""
        ours, given = socket.socketpair()
        with given:
            message = {"address": address, "port": port, "dial": True}
            socket.send_fds(self.socket, [json.dumps(message).encode()], [given.fileno()])
        ours.settimeout(60)
        return ours

    def context(self):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        c.verify_flags |= ssl.VERIFY_X509_STRICT
        c.load_verify_locations(self.ca.path)
        c.set_alpn_protocols(["h2", "http/1.1"])
        return c

    def dial(self, name, port, shown=None):
        """The same with TLS, as a client that trusts the sandbox's authority."""
        return self.context().wrap_socket(self.connect(name, port),
                                          server_hostname=shown or name or "127.0.0.1")

    @contextlib.contextmanager
    def front(self, name, port, tls=True):
        """A port of the host, for clients that are programs: its connections are handed over."""
        listener = socket.create_server(("127.0.0.1", 0))

        def run():
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with sock:
                        self.hand(sock.fileno(), name, "127.0.0.1", port, tls)

        threading.Thread(target=run, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def stop(self):
        """It must end cleanly with its netd."""
        self.socket.close()
        code = self.process.wait(timeout=60)
        self.reader.join(timeout=60)
        assert code == 0, self.text()
        return self.text()


def ask(sock, target="/", method="GET", headers=(), body=b"", host="api.example.com"):
    """Send one request and return its answer: (status, headers, body)."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"] if host else [f"{method} {target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    sock.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
    return answer(sock, method != "HEAD")


def answer(sock, has_body=True):
    # Unbuffered: what follows this answer is left for who reads next.
    with sock.makefile("rb", buffering=0) as raw:
        line, headers, body = read_message(Lines(raw), has_body)
    return int(line.split()[1]), headers, body


class Lines:
    """readline and read over a file that reads no byte too many."""

    def __init__(self, raw):
        self.raw = raw

    def readline(self):
        return self.raw.readline()

    def read(self, size=-1):
        if size < 0:
            return self.raw.readall()
        data = b""
        while len(data) < size and (more := self.raw.read(size - len(data))):
            data += more
        return data
