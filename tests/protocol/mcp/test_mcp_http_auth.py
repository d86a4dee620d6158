# SPDX-License-Identifier: Apache-2.0
"""Who may connect over HTTP, and what each caller may then use: bearer tokens of a file, and access
tokens of an OAuth issuer, made here with PyJWT and keys of `cryptography`. Numbers are those of
reference/mcp.md, section 14.
"""

import base64
import http.server
import json
import os
import subprocess
import threading
import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from harness import BIN, wait_for
from mcp_http import (INITIALIZE, Session, http_start, message, modern, modern_body,  # noqa: F401
                      modern_headers, request_bytes, send, tool)
from mcp_stdio import backend  # noqa: F401

START = message("initialize", {"protocolVersion": "2025-11-25", **INITIALIZE}, 0)
WELL_KNOWN = "/.well-known/oauth-protected-resource"


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def ask(server, token=None, **headers):
    """The answer to a harmless request."""
    return modern(server, "tools/list", headers={**(bearer(token) if token else {}), **headers})


def call(server, token, name, arguments=None):
    """The result of a tool."""
    answer = modern(server, "tools/call", tool(name, arguments), headers=bearer(token))
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json()["result"]


def is_admitted(answer):
    return answer.status == 200 and "result" in answer.json()


def soon(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


# ---- tokens of a file
class Tokens:
    def __init__(self, path):
        self.path = path

    def new(self, name, **limits):
        """Writes the token to a separate file first: a server must not see it without its limits."""
        alone = self.path.with_suffix(f".{name}")
        made = subprocess.run([BIN / "cubby-mcp", "--new-token", name, "--token-file", alone],
                              capture_output=True, text=True, timeout=30, check=True)
        entries = self.read() if self.path.exists() else []
        self.write([*entries, {**json.loads(alone.read_text())["tokens"][0], **limits}])
        return made.stdout.strip()

    def change(self, name, **fields):
        self.write([{**t, **fields} if t["name"] == name else t for t in self.read()])

    def read(self):
        return json.loads(self.path.read_text())["tokens"]

    def write(self, entries):
        self.write_text(json.dumps({"tokens": entries}))

    def write_text(self, text):
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.rename(self.path)


@pytest.fixture
def tokens(tmp_path):
    made = Tokens(tmp_path / "tokens.json")
    made.first = made.new("first")
    return made


@pytest.fixture
def guarded(http_start, tokens):
    return http_start("--token-file", tokens.path)


def test_without_a_token(guarded, tokens):  # 55
    for method, headers, body in (("POST", {}, START), ("POST", modern_headers("tools/list"), modern_body("tools/list")),
                                  ("GET", {"Accept": "text/event-stream"}, None), ("DELETE", {}, None), ("PUT", {}, b"x")):
        for wrong, error in ((None, None), ("cubby_" + "0" * 64, "invalid_token"), (tokens.first[:-1], "invalid_token"),
                             (tokens.first + "0", "invalid_token"), (tokens.first.upper(), "invalid_token")):
            answer = send(guarded, method, headers={**headers, **(bearer(wrong) if wrong else {})}, body=body)
            assert answer.status == 401, (method, wrong)
            challenge = answer.headers["www-authenticate"]
            assert challenge.startswith('Bearer realm="cubby"') and "resource_metadata" not in challenge
            assert (f'error="{error}"' in challenge) if error else "error" not in challenge
            said = answer.json()["error"]["message"]
            assert "Authorization: Bearer" in said and "--new-token" in said
            assert not wrong or wrong not in answer.body.decode() + guarded.stderr()
    assert is_admitted(ask(guarded, tokens.first))
    assert tokens.first not in guarded.stderr()


@pytest.mark.parametrize("value", [
    "Basic {token}", "{token}", "Bearer", "Bearer ", "Bearer {token} x", "Bearer  {token},x", "Bearer\x0b{token}",
    ["Bearer {token}", "Bearer {token}"], ["Bearer {token}", "Basic eDp5"], "Digest username=\"x\"", 'Bearer "{token}"'])
def test_malformed(guarded, tokens, value):
    values = [v.format(token=tokens.first) for v in (value if isinstance(value, list) else [value])]
    answer = ask(guarded, Authorization=values)
    assert answer.status == 400
    if "\x0b" not in value:
        assert 'error="invalid_request"' in answer.headers["www-authenticate"]


@pytest.mark.parametrize("value", ["bearer {token}", "BEARER   {token}", "Bearer {token}  "])
def test_well_formed(guarded, tokens, value):
    assert is_admitted(ask(guarded, Authorization=value.format(token=tokens.first)))


@pytest.mark.parametrize("path", ["/mcp?token={t}", "/mcp?access_token={t}", "/mcp?authorization=Bearer%20{t}"])
def test_a_token_in_the_address_is_not_looked_at(guarded, tokens, path):  # 55
    answer = send(guarded, path=path.format(t=tokens.first), body=START)
    assert answer.status == 401
    assert tokens.first not in guarded.stderr()


def test_it_is_asked_for_before_the_body(guarded):
    c = guarded.connect()
    c.send(request_bytes(guarded, headers={"Content-Length": "1000000"}, body=b"{"))
    assert c.response().status == 401


def test_what_needs_no_token(guarded):
    assert send(guarded, "GET", "/healthz").status == 200
    for path in WELL_KNOWN, WELL_KNOWN + "/mcp", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration":
        assert send(guarded, "GET", path).status == 404


def test_sessions_are_of_their_token(guarded, tokens):  # 56
    other = tokens.new("other")
    wait_for(lambda: ask(guarded, other).status == 200)
    mine = Session(guarded, headers=bearer(tokens.first))
    theirs = {"Authorization": f"Bearer {other}"}
    assert mine.post(message("ping", None, 1)).status == 200
    assert mine.post(message("ping", None, 1), **theirs).status == 404
    assert mine.delete(**theirs).status == 404
    assert mine.get(**theirs).status == 404
    assert mine.post(message("ping", None, 1), Authorization=None).status == 401
    assert mine.post(message("ping", None, 2)).status == 200


def test_sandboxes_are_of_their_token(guarded, tokens, backend):
    other = tokens.new("other", max_sandboxes=2)
    wait_for(lambda: ask(guarded, other).status == 200)
    mine = call(guarded, tokens.first, "create_sandbox")["structuredContent"]["sandbox_id"]
    assert backend.created[-1]["metadata"]["cubby-owner"] == "token:first"
    run = {"sandbox_id": mine, "command": "echo hi"}
    assert call(guarded, tokens.first, "run_command", run)["structuredContent"]["stdout"] == "hi\n"
    for name, arguments in (("run_command", run), ("kill_sandbox", {"sandbox_id": mine}),
                            ("read_file", {"sandbox_id": mine, "path": "/etc/hostname"})):
        refused = call(guarded, other, name, arguments)
        assert refused["isError"] and "sandbox_not_found" in refused["content"][0]["text"]
    assert mine in backend.sandboxes and len(backend.started) == 1
    for _ in range(2):
        assert not call(guarded, other, "create_sandbox").get("isError")
    third = call(guarded, other, "create_sandbox")
    assert third["isError"] and "limit_reached" in third["content"][0]["text"]
    assert not call(guarded, tokens.first, "create_sandbox").get("isError")
    seen = call(guarded, other, "list_sandboxes")["structuredContent"]["sandboxes"]
    assert len(seen) == 2 and mine not in json.dumps(seen)


def test_rate(guarded, tokens):
    slow = tokens.new("slow", calls_per_minute=3)
    wait_for(lambda: ask(guarded, tokens.first, **{"X": "y"}).status == 200)
    wait_for(lambda: send(guarded, "DELETE", headers=bearer(slow)).status != 401)
    statuses = [ask(guarded, slow).status for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    answer = ask(guarded, slow)
    assert 1 <= int(answer.headers["retry-after"]) <= 20
    assert "try again in" in answer.json()["error"]["message"]
    assert send(guarded, "DELETE", headers=bearer(slow)).status == 400  # only calls are counted
    assert all(ask(guarded, tokens.first).status == 200 for _ in range(20))


def test_a_batch_is_many_calls(guarded, tokens):
    slow = tokens.new("slow", calls_per_minute=4)
    wait_for(lambda: send(guarded, "DELETE", headers=bearer(slow)).status != 401)
    session = Session(guarded, version="2025-03-26", headers=bearer(slow))  # one
    assert session.post([message("ping", None, i) for i in range(4)]).status == 429


def test_reload(guarded, tokens):
    second = tokens.new("second")
    wait_for(lambda: ask(guarded, second).status == 200, what="a new token is taken")
    assert is_admitted(ask(guarded, tokens.first))
    session = Session(guarded, headers=bearer(second))
    stream = session.get()
    assert stream.status == 200
    tokens.write([t for t in tokens.read() if t["name"] != "second"])
    wait_for(lambda: ask(guarded, second).status == 401, what="a removed one is not")
    assert session.post(message("ping", None, 1)).status == 401
    assert stream.messages() == []  # and what was open for it ends
    tokens.write_text('{"tokens": [\n{"name": "x"}]}')
    wait_for(lambda: "line 2" in guarded.stderr(), what="a broken file is complained of")
    assert is_admitted(ask(guarded, tokens.first))
    tokens.write_text('{"tokens": []}')
    wait_for(lambda: ask(guarded, tokens.first).status == 401, what="nobody is left")


def test_a_token_that_is_replaced(guarded, tokens):
    """A client with the old token loses its session and its streams. The control: those of another
    token go on."""
    old, fresh = tokens.new("second"), tokens.new("third")
    wait_for(lambda: ask(guarded, fresh).status == 200, what="the tokens are taken")
    session, others = Session(guarded, headers=bearer(old)), Session(guarded, headers=bearer(tokens.first))
    stream, kept = session.get(), others.get()
    renamed = [{**t, "name": "second"} if t["name"] == "third" else t for t in tokens.read() if t["name"] != "second"]
    tokens.write(renamed)  # at once: the name is never absent
    wait_for(lambda: ask(guarded, old).status == 401, what="its successor is taken")
    assert stream.messages(60) == []
    wait_for(lambda: session.post(message("ping", None, 1), **bearer(fresh)).status == 404, what="its session ends")
    assert not kept.done and others.call("ping")["result"] == {}


def test_a_token_that_expires(guarded, tokens):
    brief = tokens.new("brief", expires=soon(60))
    wait_for(lambda: ask(guarded, brief).status == 200)
    tokens.change("brief", expires=soon(2))
    wait_for(lambda: ask(guarded, brief).status == 401)
    assert "expired" in ask(guarded, brief).json()["error"]["message"]


@pytest.mark.parametrize("mode, fine", [(0o600, True), (0o644, True), (0o660, False), (0o606, False)])
def test_who_may_write_the_file(http_start, tokens, backend, mode, fine):
    tokens.path.chmod(mode)
    if fine:
        assert is_admitted(ask(http_start("--token-file", tokens.path), tokens.first))
        return
    ended = subprocess.run([BIN / "cubby-mcp", "--http", "127.0.0.1:0", "--token-file", tokens.path],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                           env=backend.environment(), check=False)
    assert ended.returncode == 2 and "chmod go-w" in ended.stderr


@pytest.mark.parametrize("arguments, says", [
    (["--http", "0.0.0.0:0"], "--allow-unauthenticated-network"),
    (["--http", "[::]:0", "--token-file", "{tokens}"], "--allow-plaintext-network"),
    (["--http", "127.0.0.1:0", "--token-file", "/nonexistent"], "/nonexistent"),
    (["--http", "127.0.0.1:0", "--oauth-issuer", "http://issuer.example"], "https"),
    (["--http", "127.0.0.1:0", "--oauth-issuer", "https://issuer.example", "--oauth-jwks", "/nonexistent"], "/nonexistent"),
    (["--http", "0.0.0.0:0", "--oauth-issuer", "https://issuer.example"], "--public-url")])
def test_what_it_does_not_start_with(backend, tokens, arguments, says):
    ended = subprocess.run([BIN / "cubby-mcp", *(a.format(tokens=tokens.path) for a in arguments)],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                           env=backend.environment(), check=False)
    assert ended.returncode == 2 and says in ended.stderr and not ended.stdout


def test_anybody_when_told_so_in_so_many_words(http_start):
    server = http_start("--http", "0.0.0.0:0", "--allow-unauthenticated-network")
    assert is_admitted(ask(server))
    assert is_admitted(ask(server, "whatever"))  # a token that nobody asked for is no reason to refuse


# ---- OAuth
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
SMALL_KEY = rsa.generate_private_key(public_exponent=65537, key_size=1024)


def jwk(key, kid, **more):
    algorithms = {rsa.RSAPrivateKey: jwt.algorithms.RSAAlgorithm, ec.EllipticCurvePrivateKey: jwt.algorithms.ECAlgorithm,
                  ed25519.Ed25519PrivateKey: jwt.algorithms.OKPAlgorithm}
    algorithm = next(a for kind, a in algorithms.items() if isinstance(key, kind))
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", **more}


class Issuer:
    """An authorization server: its metadata and its keys, over http on this machine."""

    def __init__(self):
        self.keys = [jwk(RSA_KEY, "rsa"), jwk(EC_KEY, "ec"), jwk(ED_KEY, "ed"), jwk(SMALL_KEY, "small")]
        self.down = False
        self.requests = []
        self.gate = None  # an Event that the keys wait for
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def do_GET(self):
                issuer.requests.append(self.path)
                if self.path == "/keys" and issuer.gate:
                    issuer.gate.wait(20)
                documents = {"/keys": {"keys": issuer.keys},
                             "/.well-known/oauth-authorization-server": {"issuer": issuer.url, "jwks_uri": issuer.url + "/keys"}}
                found = documents.get(self.path) if not issuer.down else None
                data = json.dumps(found or {}).encode()
                self.send_response(503 if issuer.down else 200 if found else 404)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def token(self, audience, key=RSA_KEY, algorithm="RS256", kid="rsa", headers=None, **claims):
        now = int(time.time())
        made = {"iss": self.url, "aud": audience, "sub": "alice", "iat": now, "exp": now + 300, "scope": "cubby"}
        made = {k: v for k, v in {**made, **claims}.items() if v is not None}
        return jwt.encode(made, key, algorithm, headers={"kid": kid, **(headers or {})})

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def issuer():
    made = Issuer()
    yield made
    made.close()


@pytest.fixture
def oauth(http_start, issuer):
    return http_start("--oauth-issuer", issuer.url, "--oauth-scope", "cubby")


def test_where_to_get_a_token(oauth, issuer):
    answer = ask(oauth)
    metadata_url = f"http://{oauth.host}{WELL_KNOWN}/mcp"
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == \
        f'Bearer realm="cubby", scope="cubby", resource_metadata="{metadata_url}"'
    for path in WELL_KNOWN, WELL_KNOWN + "/mcp":
        found = send(oauth, "GET", path)
        assert found.status == 200 and json.loads(found.body) == {
            "resource": oauth.url, "authorization_servers": [issuer.url], "scopes_supported": ["cubby"],
            "bearer_methods_supported": ["header"], "resource_name": "Cubby"}
    assert send(oauth, "GET", WELL_KNOWN + "/other").status == 404
    assert send(oauth, "POST", WELL_KNOWN, body=b"{}").status == 405
    assert issuer.requests == []


def test_public_url(http_start, issuer):
    server = http_start("--oauth-issuer", issuer.url, "--public-url", "https://cubby.example/tools/mcp")
    assert 'resource_metadata="https://cubby.example' + WELL_KNOWN + '/tools/mcp"' in ask(server).headers["www-authenticate"]
    assert json.loads(send(server, "GET", WELL_KNOWN + "/tools/mcp").body)["resource"] == "https://cubby.example/tools/mcp"
    assert is_admitted(ask(server, issuer.token("https://cubby.example/tools/mcp")))
    assert ask(server, issuer.token(server.url)).status == 401


@pytest.mark.parametrize("key, algorithm, kid", [
    (RSA_KEY, "RS256", "rsa"), (RSA_KEY, "RS384", "rsa"), (RSA_KEY, "RS512", "rsa"), (RSA_KEY, "PS256", "rsa"),
    (RSA_KEY, "PS384", "rsa"), (RSA_KEY, "PS512", "rsa"), (EC_KEY, "ES256", "ec")],
    ids=lambda v: v if isinstance(v, str) else "key")  # the same in every process of the tests
def test_good_tokens(oauth, issuer, key, algorithm, kid):
    token = issuer.token(oauth.url, key, algorithm, kid)
    for _ in range(3):
        assert is_admitted(ask(oauth, token))
    session = Session(oauth, headers=bearer(token))
    assert session.post(message("ping", None, 1)).status == 200
    assert session.delete().status in (200, 204)
    assert issuer.requests == ["/.well-known/oauth-authorization-server", "/keys"]
    assert token.split(".")[2] not in oauth.stderr()


@pytest.mark.parametrize("claims, says", [
    ({"iss": "http://evil.example"}, "not issued by"), ({"iss": None}, "not issued by"),
    ({"aud": "https://other.example/mcp"}, "not for this server"), ({"aud": None}, "not for this server"),
    ({"aud": ["https://a.example", "https://b.example"]}, "not for this server"),
    ({"exp": 1000000000}, "expired"), ({"exp": None}, "expiry time"), ({"nbf": 9000000000}, "not valid yet"),
    ({"sub": None}, "subject")], ids=str)
def test_bad_claims(oauth, issuer, claims, says):
    answer = ask(oauth, issuer.token(**{"audience": oauth.url, **claims}))
    assert answer.status == 401
    challenge = answer.headers["www-authenticate"]
    assert 'error="invalid_token"' in challenge and says in challenge and "resource_metadata" in challenge
    assert says in answer.json()["error"]["message"]
    assert issuer.requests == []  # for such a thing nobody is asked


@pytest.mark.parametrize("claims", [{"scope": "other"}, {"scope": None}, {"scope": "cubby2 xcubby"}, {"scope": ["x"]}], ids=str)
def test_scope(oauth, issuer, claims):
    answer = ask(oauth, issuer.token(oauth.url, **claims))
    assert answer.status == 403
    challenge = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope"' in challenge and 'scope="cubby"' in challenge and "resource_metadata" in challenge
    assert is_admitted(ask(oauth, issuer.token(oauth.url, scope=None, scp=["x", "cubby"])))


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.filterwarnings("ignore:The RSA key is 1024 bits")
def test_forged(oauth, issuer):
    good = issuer.token(oauth.url)
    head, payload, signature = good.split(".")
    public = RSA_KEY.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    public_der = RSA_KEY.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    claims = jwt.decode(good, options={"verify_signature": False})
    hmac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)

    def confused(secret):  # signed with what everybody knows
        signed = f"{part({'alg': 'HS256', 'kid': 'rsa', 'typ': 'JWT'})}.{payload}"
        return signed + "." + base64.urlsafe_b64encode(hmac.sign(signed.encode(), secret)).rstrip(b"=").decode()

    stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    own = jwk(stranger, "own")
    forged = {
        "none": f"{part({'alg': 'none'})}.{payload}.",
        "none with a signature": f"{part({'alg': 'none', 'kid': 'rsa'})}.{payload}.{signature}",
        "no signature": f"{head}.{payload}.", "two parts": f"{head}.{payload}",
        "hmac of the pem": confused(public), "hmac of the der": confused(public_der),
        "other claims": f"{head}.{part({**claims, 'sub': 'root'})}.{signature}",
        "other head": f"{part({'alg': 'RS512', 'kid': 'rsa'})}.{payload}.{signature}",
        "a stranger's key": issuer.token(oauth.url, stranger),
        "a key in the head": issuer.token(oauth.url, stranger, kid="own", headers={"jwk": own}),
        "a key at an address": issuer.token(oauth.url, stranger, headers={"jku": "http://evil.example/keys"}),
        "an extension": issuer.token(oauth.url, headers={"crit": ["exp"]}),
        "an id token's type": issuer.token(oauth.url, headers={"typ": "dpop+jwt"}),
        "eddsa": issuer.token(oauth.url, ED_KEY, "EdDSA", "ed"),
        "1024 bits": issuer.token(oauth.url, SMALL_KEY, "RS256", "small"),
        "another kind of key": issuer.token(oauth.url, EC_KEY, "ES256", "rsa"),
        "long": good + "A" * 20000, "spaces": f"{head}%20.{payload}.{signature}",
        "standard base64": good.replace("_", "/").replace("-", "+") + "=="}
    for name, token in forged.items():
        answer = ask(oauth, token)
        assert answer.status in (400, 401), name
    assert is_admitted(ask(oauth, good))
    assert not any("evil" in r for r in issuer.requests)


def test_keys_rotate(oauth, issuer):
    old = issuer.token(oauth.url)
    assert is_admitted(ask(oauth, old))
    fresh = ec.generate_private_key(ec.SECP256R1())
    issuer.keys = [jwk(fresh, "fresh")]
    assert is_admitted(ask(oauth, issuer.token(oauth.url, fresh, "ES256", "fresh")))
    assert ask(oauth, old).status == 401  # its key is no more, though it was good before
    asked = len(issuer.requests)
    for i in range(50):  # those who make names up do not make us ask each time
        assert ask(oauth, issuer.token(oauth.url, fresh, "ES256", f"fresh{i}")).status == 401
    assert len(issuer.requests) == asked


def test_keys_of_a_file_rotate(http_start, issuer, tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keys": issuer.keys}))
    server = http_start("--oauth-issuer", "https://issuer.example", "--oauth-jwks", path, "--oauth-audience", "cubby")
    token = issuer.token("cubby", iss="https://issuer.example")
    assert is_admitted(ask(server, token))
    (tmp_path / "new").write_text(json.dumps({"keys": issuer.keys[1:]}))
    (tmp_path / "new").rename(path)
    wait_for(lambda: ask(server, token).status == 401, what="the key is gone")
    assert issuer.requests == []


def test_the_issuer_is_down(oauth, issuer):
    token = issuer.token(oauth.url)
    issuer.down = True
    answer = ask(oauth, token)
    assert answer.status == 503 and int(answer.headers["retry-after"]) >= 1
    assert "www-authenticate" not in answer.headers
    issuer.down = False
    wait_for(lambda: ask(oauth, token).status == 200, what="it is up again")
    issuer.down = True
    assert is_admitted(ask(oauth, token))  # known keys go on working
    assert is_admitted(ask(oauth, issuer.token(oauth.url, sub="bob")))
    assert ask(oauth, issuer.token(oauth.url, kid="other")).status == 503


def test_the_issuer_is_slow(oauth, issuer):
    """Requests that wait for keys do not delay others, and their clients may leave."""
    issuer.gate = threading.Event()
    token = issuer.token(oauth.url)
    waiting = [oauth.connect().request(headers={**modern_headers("tools/list"), **bearer(token)},
                                       body=modern_body("tools/list")) for _ in range(20)]
    wait_for(lambda: "/keys" in issuer.requests)
    assert ask(oauth).status == 401
    for c in waiting[:10]:
        c.reset()
    assert send(oauth, "GET", "/healthz").status == 200
    issuer.gate.set()
    assert all(is_admitted(c.response()) for c in waiting[10:])
    assert issuer.requests.count("/keys") == 1


def test_the_end_while_the_issuer_is_asked(http_start, issuer):
    issuer.gate = threading.Event()
    server = http_start("--oauth-issuer", issuer.url)
    c = server.connect().request(headers={**modern_headers("tools/list"), **bearer(issuer.token(server.url))},
                                 body=modern_body("tools/list"))
    wait_for(lambda: "/keys" in issuer.requests)
    server.stop()
    issuer.gate.set()
    c.close()


def test_each_subject_is_a_caller(http_start, issuer, backend):
    server = http_start("--oauth-issuer", issuer.url, "--max-sandboxes", "1", "--calls-per-minute", "20")
    alice, again, bob = (issuer.token(server.url, sub=s, jti=str(i)) for i, s in enumerate(("alice", "alice", "bob")))
    mine = call(server, alice, "create_sandbox")["structuredContent"]["sandbox_id"]
    assert backend.created[-1]["metadata"]["cubby-owner"].startswith("oauth:")
    run = {"sandbox_id": mine, "command": "echo hi"}
    assert not call(server, again, "run_command", run).get("isError")
    assert "sandbox_not_found" in call(server, bob, "run_command", run)["content"][0]["text"]
    assert "limit_reached" in call(server, again, "create_sandbox")["content"][0]["text"]
    assert not call(server, bob, "create_sandbox").get("isError")
    session = Session(server, headers=bearer(alice))
    assert session.post(message("ping", None, 1), Authorization=f"Bearer {again}").status == 200
    assert session.post(message("ping", None, 1), Authorization=f"Bearer {bob}").status == 404
    statuses = [ask(server, (alice, again)[i % 2]).status for i in range(30)]
    assert 429 in statuses  # one bucket for both tokens
    assert ask(server, bob).status == 200


def test_both_kinds_side_by_side(http_start, issuer, tokens):
    server = http_start("--oauth-issuer", issuer.url, "--token-file", tokens.path)
    assert is_admitted(ask(server, tokens.first))
    assert is_admitted(ask(server, issuer.token(server.url)))
    assert ask(server, "cubby_" + "0" * 64).status == 401
    assert os.path.exists(tokens.path) and issuer.requests.count("/keys") == 1
