# SPDX-License-Identifier: Apache-2.0
"""A cubby-egress with two secrets, and how its answers and its log report a refusal."""

import contextlib
import secrets

import pytest
from egress_peer import Authority, Egress, Host, ask
from harness import wait_for

NAME, OTHER = "api.example.com", "evil.example.net"
VALUE = "sk-live-" + secrets.token_hex(16)
PLACEHOLDER = "cubby-secret-" + secrets.token_hex(16)
WILD_VALUE = "wild/+&= " + secrets.token_hex(16)
WILD = "cubby-secret-" + secrets.token_hex(16)
SECRETS = [
    {"name": "API_KEY", "placeholder": PLACEHOLDER, "value": VALUE, "hosts": [NAME]},
    {"name": "WILD_KEY", "placeholder": WILD, "value": WILD_VALUE, "hosts": ["*.example.org"]},
]


@pytest.fixture(name="authorities", scope="module")
def fixture_authorities(tmp_path_factory):
    directory = tmp_path_factory.mktemp("egress")
    return Authority(directory, "hosts"), Authority(directory, "sandbox"), Authority(directory, "nobody")


@contextlib.contextmanager
def running(authorities, rules=None, proxy=None):
    """A cubby-egress that trusts the hosts' authority; it must end cleanly and never log a value."""
    hosts, ca, _ = authorities
    egress = Egress(ca, SECRETS, hosts.path, rules, proxy)
    opened = []

    def host(*names, behave=None, pair=None, tls=True):
        pair = pair or (hosts.pair(*(names or (NAME,))) if tls else None)
        opened.append(Host(pair, behave) if behave else Host(pair))
        return opened[-1]

    egress.host = host
    yield egress
    for one in opened:
        one.close()
    log = egress.stop()
    assert VALUE not in log and WILD_VALUE not in log and "PRIVATE KEY" not in log


@pytest.fixture(name="world")
def fixture_world(authorities):
    with running(authorities) as egress:
        yield egress


def refusals(egress):
    return [line for line in egress.text().splitlines() if "egress.refused" in line]


def refused(world, s, status, secret, *words, **request):
    got, headers, body = ask(s, **request)
    assert got == status and ("X-Cubby-Egress", "refused") in headers, body
    for word in words:
        assert word in body.decode(), body
    wait_for(lambda: f"secret={secret}" in str(refusals(world)[-1:]), what="a report")
    assert s.recv(1) == b""
    # The daemon can read it as well, in fewer words and without a value.
    newest = world.stats()[2][0]
    assert newest["proto"] == 6 and newest["port"] and newest["why"].startswith(f"secret {secret}: ") is (secret != "-")
