# SPDX-License-Identifier: Apache-2.0
"""cubby web: who may use it. Other pages in the same browser, foreign names for 127.0.0.1, other programs."""

import contextlib
import gzip
import re
import socket
import subprocess

import pytest
from websockets.exceptions import InvalidStatus

from cubbyd_fixtures import daemon, shared  # noqa: F401
from harness import BIN
from web_server import Web


@pytest.fixture
def fresh(daemon):  # noqa: F811
    made = Web(daemon.env)
    yield made
    assert made.close() == 0


@pytest.fixture
def web(fresh):
    return fresh.sign_in()


def test_the_link_works_once(fresh):
    assert fresh.send("POST", "/session", {"token": fresh.token})[0] == 200
    status, _, text = fresh.send("POST", "/session", {"token": fresh.token})
    assert status == 401 and b"press Enter" in text
    for wrong in ("", "0" * 64, fresh.token[:-1], None, 7):
        assert fresh.send("POST", "/session", {"token": wrong})[0] == 401


def test_the_token_is_in_no_request_line_and_no_argument(fresh):
    assert re.fullmatch(r"http://[0-9a-f]{16}\.localhost:\d+/#[0-9a-f]{64}", fresh.link)
    with open(f"/proc/{fresh.process.pid}/cmdline", "rb") as words:
        assert fresh.token.encode() not in words.read()


def test_everything_but_the_files_of_the_page_needs_the_key(fresh):
    for path in ("/session", "/live", "/stream", "/api/sandboxes", "/api/sandboxes/stats", "/box/abc/files?path=/etc/passwd", "/nothing"):
        assert fresh.send("GET", path)[0] == 401, path
        assert fresh.send("GET", path, headers={"Cubby-Web-Key": "0" * 64})[0] == 401, path
        # Neither a cookie nor any other header stands for the key.
        assert fresh.send("GET", path, headers={"Cookie": f"cubby-key={fresh.token}", "Authorization": f"Bearer {fresh.token}"})[0] == 401
    assert fresh.send("POST", "/api/v2/sandboxes", {"templateID": "default"})[0] == 401
    assert fresh.send("GET", "/")[0] == 200


def test_no_cookie_is_set(web):
    for method, path in (("GET", "/"), ("GET", "/session"), ("GET", "/api/sandboxes/stats")):
        assert web.send(method, path)[1].get("Set-Cookie") is None


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:{port}", "localhost:{port}", "127.0.0.1.evil.example:{port}",
                                  "localhost.evil.example:{port}", "[::1]:{port}", "0.0.0.0:{port}", "127.1:{port}", "", "{name}", "{name}:1",
                                  "{name}.:{port}", "x{name}:{port}", "x.{name}:{port}", "0123456789abcdef.localhost:{port}", ".localhost:{port}"])
def test_a_foreign_name_for_this_address_is_refused(web, host):
    """DNS rebinding: the name of another site leads here, and its page sends the key that it does not have; even with it."""
    for path in ("/", "/app.js", "/api/sandboxes/stats"):
        status, headers, text = web.send("GET", path, host=host.format(port=web.port, name=web.host.partition(":")[0]))
        assert status in (400, 403), (path, status)
        assert headers.get("Access-Control-Allow-Origin") is None
        assert web.host.encode() not in text  # a page at another name of this address does not learn the name


def test_a_request_without_a_host_is_refused(web):
    assert web.send("GET", "/", skip_host=True)[0] in (400, 403)


def test_the_name_is_new_in_each_run(daemon, fresh):  # noqa: F811
    """A browser keeps service workers, caches and storage by name and port, and one may have chosen the port."""
    fresh.close()
    again = Web(daemon.env, "--port", str(fresh.port))
    try:
        assert again.port == fresh.port and again.host != fresh.host
        assert again.send("GET", "/")[0] == 200 and again.send("GET", "/", host=fresh.host)[0] == 403
        old = {"Origin": f"http://{fresh.host}"}
        assert again.send("POST", "/session", {"token": again.token}, headers=old)[0] == 403
        assert again.send("POST", "/session", {"token": again.token}, headers={"Origin": f"http://{again.host}"})[0] == 200
    finally:
        assert again.close() == 0


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:{port}", "http://localhost:{port}", "http://{name}", "http://{name}:1", "https://{name}:{port}",
                                    "http://{name}:{port}.evil.example", "http://x.{name}:{port}", "http://0123456789abcdef.localhost:{port}"])
def test_another_origin_is_refused(web, origin):
    """Pages of sandboxes are on other ports of the same host, so the port counts."""
    headers = {"Origin": origin.format(port=web.port, name=web.host.partition(":")[0])}
    assert web.send("GET", "/api/sandboxes/stats", headers=headers)[0] == 403
    assert web.send("POST", "/session", {"token": web.token}, headers=headers)[0] == 403
    assert web.send("DELETE", "/api/sandboxes/abc", headers=headers)[0] == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_is_refused(web, site):
    for path in ("/app.js", "/api/sandboxes/stats", "/xterm/xterm.mjs"):
        assert web.send("GET", path, headers={"Sec-Fetch-Site": site})[0] == 403


def test_no_other_origin_may_read_an_answer(web):
    headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "cubby-web-key", "Origin": "http://evil.example"}
    for method, path in (("OPTIONS", "/api/sandboxes/stats"), ("OPTIONS", "/session"), ("GET", "/api/sandboxes/stats")):
        answer = web.send(method, path, headers=headers)[1]
        assert not [name for name in answer if name.lower().startswith("access-control")]
    # The daemon itself allows every origin, as it has no cookies; that header must not come through.
    assert web.send("GET", "/api/sandboxes/stats")[1].get("Access-Control-Allow-Origin") is None


def test_a_websocket_needs_the_key_and_the_origin(web):
    for path in ("/live", "/stream"):
        for wrong in ({"key": False}, {"key": "0" * 64}, {"origin": False}, {"origin": "http://evil.example"}):
            with pytest.raises(InvalidStatus) as refused:
                web.socket(path, **wrong)
            assert refused.value.response.status_code in (401, 403)
        web.socket(path).close()


def test_the_policy_of_every_answer(web):
    for method, path in (("GET", "/"), ("GET", "/app.js"), ("GET", "/api/sandboxes/stats"), ("GET", "/nothing"), ("POST", "/session")):
        _, headers, _ = web.send(method, path, b"" if method == "POST" else None)
        policy = headers.get_all("Content-Security-Policy")[0]
        rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
        assert rules["default-src"] == "'none'" and rules["script-src"] == "'self'" and rules["connect-src"] == "'self'"
        assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
        assert "unsafe-inline" not in rules["style-src"]
        assert headers["X-Content-Type-Options"].startswith("nosniff")
        assert headers["X-Frame-Options"] == "DENY" and headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and headers["Cache-Control"] == "no-store"


def test_answers_of_the_daemon_and_of_sandboxes_are_no_pages(web):
    """Whatever type they say, a browser that opens one runs no script of it."""
    for path in ("/api/sandboxes/stats", "/box/abc/files?path=/x"):
        policies = web.send("GET", path)[1].get_all("Content-Security-Policy")
        assert any(p.startswith("sandbox;") for p in policies), policies


def test_the_page_has_no_inline_script_and_names_no_other_host(web):
    _, headers, packed = web.send("GET", "/")
    assert headers["Content-Encoding"] == "gzip"
    text = gzip.decompress(packed).decode()
    assert not re.findall(r"<script(?![^>]*\bsrc=)", text) and not re.findall(r"\son\w+=", text)
    for path in ("/", "/style.css", "/app.js"):
        text = gzip.decompress(web.send("GET", path)[2]).decode()
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)[a-z]", text), path
        assert "innerHTML" not in text and "document.write" not in text and "eval(" not in text, path


def test_the_page_has_one_script_in_which_no_name_is_given_twice(web, tmp_path):
    script = tmp_path / "app.mjs"
    script.write_bytes(gzip.decompress(web.send("GET", "/app.js")[2]))
    subprocess.run(["node", "--check", script], check=True, timeout=60)
    assert not re.search(r"^import ", script.read_text(), re.M)
    assert web.send("GET", "/dom.js")[0] == 404


@pytest.mark.parametrize("path", ["/../etc/passwd", "/..%2f..%2fetc/passwd", "/static/../../x", "//etc/passwd", "/index.html/..", "/%00",
                                  "/xterm/../app.js", "/box/../api/sandboxes", "/box//files", "/box/a%2fb/files", "/box/A/files", "/boxes"])
def test_no_path_leads_out_of_the_page(web, path):
    assert web.send("GET", path)[0] in (400, 403, 404), path


def has_ipv6():
    with contextlib.suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


def test_it_listens_on_loopback_only(web):
    with open("/proc/net/tcp", encoding="ascii") as table:
        addresses = [line.split()[1] for line in table if f":{web.port:04X} " in line and " 0A " in line]
    assert addresses == [f"0100007F:{web.port:04X}"]
    with open("/proc/net/tcp6", encoding="ascii") as table:
        addresses = [line.split()[1] for line in table if f":{web.port:04X} " in line and " 0A " in line]
    # Browsers try ::1 first for a name below .localhost.
    assert addresses == ([f"00000000000000000000000001000000:{web.port:04X}"] if has_ipv6() else [])
    if has_ipv6():
        assert web.send("GET", "/session", address="::1")[0] == 200


def test_bytes_that_are_no_request(web):
    for garbage in (b"\x16\x03\x01\x00\xa5", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"G" * 70000, b"\0" * 100):
        with socket.create_connection(("127.0.0.1", web.port), 10) as s:
            s.sendall(garbage)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
    assert web.send("GET", "/session")[0] == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_that_is_taken_is_told(daemon, address):  # noqa: F811
    """Also if another program has it at one address only, where browsers may connect."""
    if address == "::1" and not has_ipv6():
        pytest.skip("this host has no IPv6")
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as other:
        ended = subprocess.run([BIN / "cubby", "web", "--port", str(other.getsockname()[1])], env=daemon.env, capture_output=True, text=True,
                               timeout=30)
    assert ended.returncode == 1 and "in use" in ended.stderr and not ended.stdout
