# SPDX-License-Identifier: Apache-2.0
"""E2B's secrets API, and network.rules with header transforms, also through E2B's own SDKs."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from cubbyd import Daemon
from cubbyd_fixtures import *  # noqa: F401,F403
from sdk import OnTcp, both_sdks, runs_to_its_end
from tenants import Tenants

VALUE, NEWER = "sk-stored-0123456789", "sk-stored-9876543210"
RULES = {"api.example.com": [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.openai}"}}}]}


class Tcp(OnTcp, Daemon):
    """A daemon that also listens on TCP."""


def make(daemon, name="openai", value=VALUE, **more):
    answer = daemon.request("POST", "/secrets", {"name": name, "value": value, **more})
    assert answer.status == 201, answer.body
    return answer.json


@pytest.fixture
def secret(daemon):
    made = make(daemon)
    yield made
    daemon.request("DELETE", f"/secrets/{made['secretID']}")


def values_of(daemon):
    """The values in the store, by file name."""
    return {p.name: p.read_text() for p in (daemon.home / "secrets").iterdir() if p.name != "index.json"}


def refuse(daemon, word, status=400, **fields):
    answer = daemon.request("POST", "/v2/sandboxes", {"templateID": "default", **fields})
    assert answer.status == status and word in answer.json["message"], answer.body
    assert VALUE not in answer.body.decode()


# ---- secrets
def test_make_get_update_and_destroy(daemon):
    made = make(daemon, "OpenAI Key", metadata={"team": "a"})
    assert set(made) == {"secretID", "name", "currentVersion", "metadata", "createdAt", "updatedAt"}
    assert made["name"] == "openai key" and made["currentVersion"] == 1 and made["metadata"] == {"team": "a"}
    assert made["secretID"].startswith("sec_") and VALUE not in json.dumps(made)
    for name in (made["secretID"], "openai key", "OPENAI%20KEY"):
        assert daemon.request("GET", "/secrets/" + name.replace(" ", "%20")).json == made
    assert daemon.request("POST", "/secrets", {"name": "OPENAI KEY", "value": VALUE}).status == 409
    changed = daemon.request("POST", f"/secrets/{made['secretID']}", {"value": NEWER}).json
    assert changed["currentVersion"] == 2 and changed["metadata"] == {"team": "a"}
    assert changed["updatedAt"] > made["updatedAt"] and changed["createdAt"] == made["createdAt"]
    changed = daemon.request("POST", "/secrets/openai%20key", {"value": NEWER, "metadata": {}}).json
    assert changed["currentVersion"] == 3 and changed["metadata"] == {}
    assert daemon.request("DELETE", f"/secrets/{made['secretID']}").status == 204
    for method in ("GET", "DELETE", "POST"):
        answer = daemon.request(method, f"/secrets/{made['secretID']}", {"value": VALUE} if method == "POST" else None)
        assert answer.status == 404 and answer.json["error_code"] == "secret_not_found"
    assert values_of(daemon) == {}


@pytest.mark.parametrize("body, word", [
    ({"name": ""}, "name"), ({"name": "a{b"}, "brace"), ({"name": "a\nb"}, "control"), ({"name": "x" * 129}, "128"),
    ({"name": "Sec_x"}, "sec_"), ({"value": "short"}, "8 to"), ({"value": "x" * 65537}, "65536"),
    ({"value": "two\nlines of it"}, "one line"), ({"value": None}, "8 to"), ({"value": 12345678}, "value"),
    ({"metadata": {"a": 1}}, "metadata"), ({"metadata": {"a": "x" * 1025}}, "1024"), ({"more": "x"}, "more"),
    ({"metadata": {str(i): "x" for i in range(33)}}, "32"),
    ({"metadata": {"cubby.hosts": "*.com"}}, "too many hosts"), ({"metadata": {"cubby.hosts": ""}}, "not a host"),
    ({"metadata": {"cubby.env_name": "LD_X"}}, "LD_X")])
def test_a_wrong_secret_is_refused(daemon, body, word):
    answer = daemon.request("POST", "/secrets", {"name": "fine", "value": VALUE} | body)
    assert answer.status == 400 and word in answer.json["message"], answer.body
    assert daemon.request("GET", "/secrets").json == []


def test_pages(daemon):
    made = [make(daemon, f"name{i}") for i in range(5)]
    got, token = [], ""
    while True:
        answer = daemon.request("GET", f"/secrets?limit=2&nextToken={token}")
        got.append(answer.json)
        token = answer.headers.get("X-Next-Token")
        if not token:
            break
    assert [len(page) for page in got] == [2, 2, 1] and sum(got, []) == made
    for one in made:
        daemon.request("DELETE", f"/secrets/{one['secretID']}")


def test_the_limit(daemon):
    made = [make(daemon, f"name{i}") for i in range(100)]
    answer = daemon.request("POST", "/secrets", {"name": "one-more", "value": VALUE})
    assert answer.status == 429 and "delete one" in answer.json["message"]
    for one in made:
        daemon.request("DELETE", f"/secrets/{one['secretID']}")


def test_they_outlive_the_daemon_and_leave_nothing():
    with Daemon() as daemon:
        made, other = make(daemon), make(daemon, "other")
        assert (daemon.home / "secrets").stat().st_mode & 0o777 == 0o700
        files = {p: p.stat().st_mode & 0o777 for p in (daemon.home / "secrets").iterdir()}
        assert set(files.values()) == {0o600}
        daemon.stop(signal.SIGKILL)
        (daemon.home / "secrets" / f"{made['secretID']}.2").write_text(NEWER)  # as if it died before the index
        daemon.start()
        assert daemon.request("GET", "/secrets").json == [made, other]
        assert values_of(daemon) == {f"{one['secretID']}.1": VALUE for one in (made, other)}
        daemon.request("POST", f"/secrets/{made['secretID']}", {"value": NEWER})
        assert values_of(daemon)[f"{made['secretID']}.2"] == NEWER and len(values_of(daemon)) == 2
        assert VALUE not in daemon.log.read_text() and NEWER not in daemon.log.read_text()


def test_tenants_have_names_of_their_own():
    with Tenants() as daemon:
        made = [daemon.ask(key, "POST", "/secrets", {"name": "same", "value": VALUE})[1] for key in (0, 1)]
        assert made[0]["secretID"] != made[1]["secretID"]
        for key in (0, 1):
            assert daemon.ask(key, "GET", "/secrets")[1] == [made[key]]
            assert daemon.ask(key, "GET", "/secrets/same")[1] == made[key]
            assert daemon.ask(key, "GET", f"/secrets/{made[1 - key]['secretID']}")[0] == 404
            assert daemon.ask(key, "DELETE", f"/secrets/{made[1 - key]['secretID']}")[0] == 404
        assert daemon.request("GET", "/secrets/same").status == 404  # the unix socket has none of this name
        assert {one["secretID"] for one in daemon.request("GET", "/secrets").json} == {one["secretID"] for one in made}
        rules = {"a.example.com": [{"transform": {"headers": {"X": "${e2b.secrets.same}"}}}]}
        status, answer = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default", "network": {"rules": rules}})
        assert status == 201
        record = daemon.record(answer["sandboxID"])
        assert record["secrets"]["given"]["same"]["hosts"] == ["a.example.com"]
        daemon.ask(0, "DELETE", "/secrets/same")
        status, answer = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default", "network": {"rules": rules}})
        assert status == 400 and "same" in answer["message"]  # the other tenant's is not used


def test_the_operators_later_secret_is_not_given(tmp_path):
    """An entry of the secrets file that is not for the owner reaches no sandbox that wakes or is forked."""
    (tmp_path / "value").write_text(NEWER)
    path = tmp_path / "secrets.json"

    def write(name, *keys):
        entry = {"file": str(tmp_path / "value"), "hosts": ["b.example.com"], "keys": keys}
        path.write_text(json.dumps({name: entry}))

    def sleep(sandbox):
        assert daemon.ask(0, "POST", f"/sandboxes/{sandbox}/pause", {"depth": "hibernate"})[0] == 204

    def wake(sandbox):
        return daemon.ask(0, "POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60})

    def create(name):
        status, made = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default", "secrets": [name]})
        assert status == 201, made
        return made["sandboxID"]

    write("OTHER", "key0")
    with Tenants("--secrets", str(path)) as daemon:
        body = {"name": "SHARED", "value": VALUE, "metadata": {"cubby.hosts": "a.example.com"}}
        assert daemon.ask(0, "POST", "/secrets", body)[0] == 201
        own, filed = create("SHARED"), create("OTHER")
        sleep(own)
        write("SHARED", "key1")
        assert wake(own)[0] == 201, "it wakes with its own secret"
        status, children = daemon.ask(0, "POST", f"/sandboxes/{own}/fork", {})
        assert status == 201 and "sandbox" in children[0], children
        daemon.ask(0, "DELETE", "/secrets/SHARED")
        for name, sandbox in (("SHARED", own), ("OTHER", filed)):
            sleep(sandbox)
            write(name, "key1")
            status, answer = wake(sandbox)
            assert status == 400 and name in answer["message"], answer
        write("OTHER", "key0")
        assert wake(filed)[0] == 201, "it wakes once its owner may use the secret again"


def test_a_stored_secret_is_one_of_ours(daemon):
    """With cubby.hosts, a create may name it in `secrets`: the guest gets a placeholder."""
    made = make(daemon, "my-key", metadata={"cubby.hosts": "api.example.com, *.example.org"})
    sandbox = daemon.create(secrets=["my-key"])["sandboxID"]
    given = daemon.record(sandbox)["secrets"]["given"]["my-key"]
    assert given["env"] == "MY_KEY" and given["placeholder"].startswith("cubby-secret-")
    init = json.loads((daemon.directory(sandbox) / "init.json").read_text())
    assert init["envVars"]["MY_KEY"] == given["placeholder"] and VALUE not in json.dumps(init)
    daemon.kill(sandbox)
    daemon.request("DELETE", f"/secrets/{made['secretID']}")
    refuse(daemon, "my-key", secrets=["my-key"])


def test_a_secret_without_hosts_is_for_rules(daemon, secret):
    refuse(daemon, "cubby.hosts", secrets=["openai"])


# ---- network.rules
def test_what_a_sandbox_with_rules_has(daemon, secret):
    made = daemon.create(network={"rules": RULES})
    sandbox = made["sandboxID"]
    detail = daemon.get(sandbox).json
    assert detail["network"]["rules"] == RULES and detail["secrets"] == []
    init = json.loads((daemon.directory(sandbox) / "init.json").read_text())
    given = daemon.record(sandbox)["secrets"]["given"]["openai"]
    assert given["hosts"] == ["api.example.com"] and "env" not in given
    assert given["placeholder"] not in json.dumps(init), "the guest cannot use the secret elsewhere"
    assert init["caBundle"].startswith("-----BEGIN CERTIFICATE-----\n")
    assert "secrets" not in daemon.record(daemon.create()["sandboxID"])
    assert "rules" not in daemon.get(daemon.create()["sandboxID"]).json["network"]


@pytest.mark.parametrize("rules, word", [
    ([], "rules"), ({"https://a.example": []}, "not a host"), ({"*.com": []}, "too many hosts"), ({"*": []}, "host"),
    ({"a.example": {}}, "list"), ({"a.example": [1]}, "transform"), ({"a.example": [{"header": {}}]}, "header"),
    ({"a.example": [{"transform": {"headers": [1]}}]}, "headers"), ({"a.example": [{"transform": []}]}, "transform"),
    ({"a.example": [{"transform": {"headers": {"X": 1}}}]}, "X"), ({"a.example": [], "A.example": []}, "twice"),
    ({"a.example": [{"transform": {"headers": {"a b": ""}}}]}, "name"),
    ({"a.example": [{"transform": {"headers": {"X": "a\r\nY: b"}}}]}, "control"),
    ({"a.example": [{"transform": {"headers": {"hOst": "b.example"}}}]}, "connection"),
    ({"a.example": [{"transform": {"headers": {"Proxy-Authorization": "b"}}}]}, "connection"),
    ({"a.example": [{"transform": {"headers": {"X": "${e2b.identity.tokens.aws}"}}}]}, "iam"),
    ({"a.example": [{"transform": {"headers": {"X": "${e2b.secrets.}"}}}]}, "e2b.secrets"),
    ({"a.example": [{"transform": {"headers": {"X": "${e2b.secrets.none}"}}}]}, "none"),
    ({"a.example": [{"transform": {"headers": {"X": "x" * 8193}}}]}, "8192"),
    ({"a.example": [{"transform": {"headers": {f"X{i}": "" for i in range(33)}}}]}, "32"),
    ({f"a{i}.example": [] for i in range(65)}, "64")])
def test_wrong_rules_are_refused(daemon, rules, word):
    refuse(daemon, word, network={"rules": rules})


def test_rules_that_egress_would_refuse_are_refused(daemon, secret):
    """A mark counts as its placeholder of 45 bytes, and all rules have a limit."""
    mark = "${e2b.secrets.openai}"

    def rules(marks, hosts=1, headers=1):
        values = {f"X{i}": mark * marks for i in range(headers)}
        return {"rules": {f"a{i}.example": [{"transform": {"headers": values}}] for i in range(hosts)}}

    refuse(daemon, "header X0 may have 8192 bytes", network=rules(183))
    refuse(daemon, "network.rules may have 1048576 bytes", network=rules(182, 12, 12))
    sandbox = daemon.create(network=rules(182))["sandboxID"]
    assert daemon.kill(sandbox)


def test_a_secret_of_the_operators_file_keeps_its_hosts(tmp_path):
    (tmp_path / "value").write_text(VALUE)
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"KEY": {"file": str(tmp_path / "value"), "hosts": ["*.example.com"]}}))

    def rules(host):
        return {"rules": {host: [{"transform": {"headers": {"X": "${e2b.secrets.KEY}"}}}]}}

    with Daemon("--secrets", str(path)) as daemon:
        for host in ("a.example.com", "*.example.com", "*.b.example.com"):
            sandbox = daemon.create(network=rules(host))["sandboxID"]
            assert "hosts" not in daemon.record(sandbox)["secrets"]["given"]["KEY"]
        for host in ("example.com", "a.example.org", "*.org.example"):
            refuse(daemon, "not for the host", network=rules(host))


def put(daemon, sandbox, **body):
    return daemon.request("PUT", f"/sandboxes/{sandbox}/network", body)


def put_rules(daemon, sandbox, rules):
    answer = put(daemon, sandbox, rules=rules)
    assert answer.status == 204, answer.body
    assert daemon.get(sandbox).json["network"].get("rules", {}) == rules


def egress_of(daemon, sandbox):
    """The configuration that the machine's egress has got last."""
    return json.loads((daemon.directory(sandbox) / "egress.json").read_text())


def init_of(daemon, sandbox):
    return json.loads((daemon.directory(sandbox) / "init.json").read_text())


def test_rules_stay_over_hibernation_fork_and_cubbys_own_form(daemon, secret):
    sandbox = daemon.create(network={"rules": RULES})["sandboxID"]
    assert put(daemon, sandbox, mode="allow", allow=["api.example.com"]).status == 204
    assert put(daemon, sandbox, rules=RULES, denyOut=["0.0.0.0/0"], allowOut=["api.example.com"]).status == 204
    assert not (daemon.directory(sandbox) / "egress.json").exists(), "the same rules are no change"
    child = daemon.request("POST", f"/sandboxes/{sandbox}/fork", {}).json[0]["sandbox"]["sandboxID"]
    for one in (sandbox, child):
        assert daemon.get(one).json["network"]["rules"] == RULES


def test_rules_change_while_the_sandbox_lives(daemon, secret):
    """None, some, others, none: E2B's form clears what it leaves out."""
    sandbox = daemon.create()["sandboxID"]
    assert put(daemon, sandbox, rules={}).status == 204 and "secrets" not in daemon.record(sandbox)
    put_rules(daemon, sandbox, RULES)
    record = daemon.record(sandbox)["secrets"]
    init = init_of(daemon, sandbox)
    assert init["caBundle"] == record["ca"]["certificate"] and init["inheritEnvVars"] is True
    assert "SSL_CERT_FILE" in init["envVars"] and record["given"]["openai"]["placeholder"] not in json.dumps(init)
    config = egress_of(daemon, sandbox)
    assert config["ca"] == record["ca"] and [s["value"] for s in config["secrets"]] == [VALUE]
    assert config["rules"][0]["host"] == "api.example.com"
    other = {"*.example.org": [{"transform": {"headers": {"X": "plain"}}}]}
    put_rules(daemon, sandbox, other)
    config = egress_of(daemon, sandbox)
    assert config["ca"] == record["ca"] and config["secrets"] == [] and config["rules"][0]["headers"] == {"X": "plain"}
    assert init_of(daemon, sandbox) == init, "the guest knows the authority already"
    assert put(daemon, sandbox).status == 204, "as E2B's API, a network without rules clears them"
    assert "rules" not in daemon.get(sandbox).json["network"] and egress_of(daemon, sandbox) is None
    assert daemon.record(sandbox)["secrets"] == {"given": {}, "ca": record["ca"]}
    put_rules(daemon, sandbox, RULES)
    assert egress_of(daemon, sandbox)["ca"] == record["ca"]


def test_changed_rules_outlive_pause_hibernation_fork_and_the_daemon():
    other = {"b.example.com": [{"transform": {"headers": {"X": "changed"}}}]}
    with Daemon() as daemon:
        sandbox = daemon.create(network={"rules": {"a.example.com": []}})["sandboxID"]
        put_rules(daemon, sandbox, other)
        for depth in ("freeze", "hibernate"):
            assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": depth}).status == 204
            answer = put(daemon, sandbox, rules=RULES)
            assert answer.status == 409 and "resume it first" in answer.json["message"]
            assert daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60}).status in (200, 201)
            assert daemon.get(sandbox).json["network"]["rules"] == other
        child = daemon.request("POST", f"/sandboxes/{sandbox}/fork", {}).json[0]["sandbox"]["sandboxID"]
        daemon.stop(signal.SIGKILL)
        daemon.start()
        for one in (sandbox, child):
            assert daemon.get(one).json["network"]["rules"] == other
            put_rules(daemon, one, {})


def test_secrets_of_the_create_stay_when_rules_change(daemon, secret):
    own = make(daemon, "own", metadata={"cubby.hosts": "c.example.com"})
    sandbox = daemon.create(secrets=["own"])["sandboxID"]
    before = daemon.record(sandbox)["secrets"]
    for rules in (RULES, {}):
        put_rules(daemon, sandbox, rules)
        after = daemon.record(sandbox)["secrets"]
        assert after["given"]["own"] == before["given"]["own"] and after["ca"] == before["ca"]
        assert set(after["given"]) == ({"own", "openai"} if rules else {"own"})
        assert {s["name"] for s in egress_of(daemon, sandbox)["secrets"]} == set(after["given"])
    daemon.request("DELETE", f"/secrets/{own['secretID']}")
    answer = put(daemon, sandbox, rules=RULES)
    assert answer.status == 400 and "own" in answer.json["message"], "its value cannot be read any more"
    assert daemon.record(sandbox)["secrets"] == before, "a failure changes nothing"


def test_a_guest_that_does_not_answer_holds_up_no_lock_down(daemon):
    """A change that waits for the guest is ended by the next one, and does not come after it."""
    sandbox = daemon.create()["sandboxID"]
    pid = daemon.record(sandbox)["machine"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as pool:
            first = pool.submit(put, daemon, sandbox, rules={"a.example": []})
            while not first.done():  # it may come after some of these
                assert put(daemon, sandbox, mode="none").status == 204
            answer = first.result()
            assert answer.status == 409 and "later request" in answer.json["message"], answer.body
    finally:
        os.kill(pid, signal.SIGCONT)
    assert put(daemon, sandbox, mode="none", rules={}).status == 204
    assert daemon.get(sandbox).json["allowInternetAccess"] is False and "rules" not in daemon.get(sandbox).json["network"]


def test_the_network_is_closed_also_when_a_secret_is_gone(daemon):
    own = make(daemon, "own", metadata={"cubby.hosts": "c.example.com"})
    sandbox = daemon.create(secrets=["own"], network={"rules": {"a.example": []}})["sandboxID"]
    daemon.request("DELETE", f"/secrets/{own['secretID']}")
    assert put(daemon, sandbox, allow_internet_access=False).status == 204
    assert daemon.get(sandbox).json["allowInternetAccess"] is False
    assert put(daemon, sandbox).status == 400, "control: to open it again, the secret is needed"
    assert daemon.get(sandbox).json["allowInternetAccess"] is False


@pytest.mark.parametrize("rules, word", [
    ({"*.com": []}, "too many hosts"), ({"a.example": [{"transform": {"headers": {"X": "${e2b.secrets.no}"}}}]}, "no"),
    ([], "rules"), ({"a.example": [{"transform": {"headers": {"hOst": "b"}}}]}, "connection")])
def test_wrong_rules_change_nothing(daemon, rules, word):
    sandbox = daemon.create()["sandboxID"]
    if rules == []:
        rules = ["x"]
    answer = put(daemon, sandbox, rules=rules, denyOut=["0.0.0.0/0"])
    assert answer.status == 400 and word in answer.json["message"], answer.body
    assert daemon.get(sandbox).json["allowInternetAccess"] is True and "secrets" not in daemon.record(sandbox)


def test_rules_use_the_owners_secrets():
    """An operator who changes a tenant's sandbox cannot give it a secret of another owner."""
    with Tenants() as daemon:
        make(daemon)  # of the unix socket
        status, made = daemon.ask(0, "POST", "/v2/sandboxes", {"templateID": "default"})
        assert status == 201
        answer = put(daemon, made["sandboxID"], rules=RULES)
        assert answer.status == 400 and "openai" in answer.json["message"]
        assert daemon.ask(1, "PUT", f"/sandboxes/{made['sandboxID']}/network", {"rules": {}})[0] == 404


def test_a_deleted_secret_stops_a_wake(daemon):
    made = make(daemon)
    sandbox = daemon.create(network={"rules": RULES})["sandboxID"]
    assert daemon.request("POST", f"/sandboxes/{sandbox}/pause", {"depth": "hibernate"}).status == 204
    daemon.request("DELETE", f"/secrets/{made['secretID']}")
    answer = daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60})
    assert answer.status == 400 and "openai" in answer.json["message"], answer.body
    again = make(daemon)
    assert daemon.request("POST", f"/sandboxes/{sandbox}/connect", {"timeout": 60}).status in (200, 201)
    daemon.request("DELETE", f"/secrets/{again['secretID']}")


# ---- with E2B's SDKs
PYTHON_PROGRAM = """
from e2b import Sandbox, Secret, SecretNotFoundException
first = Secret.create("OpenAI", "sk-python-12345678", {"team": "a"})
assert first.name == "openai" and first.version == 1 and first.metadata == {"team": "a"}, first
assert Secret.update("openai", "sk-python-87654321").version == 2
assert Secret.get_info(first.secret_id).version == 2
second = Secret.create("second", "sk-python-12345678")
paginator, names = Secret.list(limit=1), []
while paginator.has_next:
    names += [secret.name for secret in paginator.next_items()]
assert names == ["openai", "second"], names
fill = Secret.fill("openai")
sandbox = Sandbox.create("default", network={
    "allow_out": lambda ctx: list(ctx.rules), "deny_out": lambda ctx: [ctx.all_traffic],
    "rules": {"api.example.com": [{"transform": {"headers": {"Authorization": "Bearer " + fill}}}]}})
network = sandbox.get_info().network
assert network["rules"] == {"api.example.com": [{"transform": {"headers": {"Authorization": "Bearer " + fill}}}]}
assert network["allow_out"] == ["api.example.com"], network
changed = {"*.example.org": [{"transform": {"headers": {"X-Changed": "yes"}}}]}
sandbox.update_network({"rules": changed})
assert sandbox.get_info().network["rules"] == changed
sandbox.update_network({"deny_out": ["1.2.3.4"]})
assert "rules" not in sandbox.get_info().network
assert sandbox.kill()
assert Secret.destroy("openai") and Secret.destroy(second.secret_id) and not Secret.destroy("openai")
try:
    Secret.get_info("openai")
    raise SystemExit("it is still there")
except SecretNotFoundException:
    print("done")
"""

JS_PROGRAM = """
import { createRequire } from 'node:module'
import assert from 'node:assert/strict'
const { Sandbox, Secret, SecretNotFoundError } = createRequire(process.env.CLIENTS + '/')('e2b')
const first = await Secret.create('OpenAI', 'sk-javascript-1234', { metadata: { team: 'a' } })
assert.equal(first.name, 'openai')
assert.deepEqual(first.metadata, { team: 'a' })
const second = await Secret.create('second', 'sk-javascript-1234')
assert.equal((await Secret.update('openai', 'sk-javascript-4321')).version, 2)
assert.equal((await Secret.getInfo(first.secretId)).version, 2)
const paginator = Secret.list({ limit: 1 }), names = []
while (paginator.hasNext) names.push(...(await paginator.nextItems()).map((secret) => secret.name))
assert.deepEqual(names, ['openai', 'second'])
const rules = { 'api.example.com': [{ transform: { headers: { Authorization: 'Bearer ' + Secret.fill('openai') } } }] }
const sandbox = await Sandbox.create('default', { network: {
  rules, allowOut: ({ rules }) => [...rules.keys()], denyOut: ({ allTraffic }) => [allTraffic] } })
const { network } = await sandbox.getInfo()
assert.deepEqual(network.rules, rules)
assert.deepEqual(network.allowOut, ['api.example.com'])
const changed = { '*.example.org': [{ transform: { headers: { 'X-Changed': 'yes' } } }] }
await sandbox.updateNetwork({ rules: changed })
assert.deepEqual((await sandbox.getInfo()).network.rules, changed)
await sandbox.updateNetwork({ denyOut: ['1.2.3.4'] })
assert.equal((await sandbox.getInfo()).network.rules, undefined)
assert.equal(await sandbox.kill(), true)
assert.equal(await Secret.destroy('openai'), true)
assert.equal(await Secret.destroy(second.secretId), true)
assert.equal(await Secret.destroy('openai'), false)
await assert.rejects(Secret.getInfo('openai'), SecretNotFoundError)
console.log('done')
"""


@both_sdks(PYTHON_PROGRAM, JS_PROGRAM)
def test_sdks(words):
    with Tcp() as daemon:
        runs_to_its_end(words, daemon)
