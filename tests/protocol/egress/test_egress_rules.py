# SPDX-License-Identifier: Apache-2.0
"""Rules: headers that cubby-egress sets in requests to a host, in place of what the guest sent."""

import json

import pytest

from egress_peer import ask
from egress_world import NAME, OTHER, PLACEHOLDER, VALUE, refused, running
from egress_world import fixture_authorities  # noqa: F401 (a fixture)

LITERAL = "Bearer literal-of-a-rule"
RULES = [
    {"host": "*.example.com", "headers": {"X-Rule": "wide"}},
    {"host": "*.deep.example.com", "headers": {"X-Rule": "deep"}},
    {"host": "own.deep.example.com", "headers": {"X-Rule": "exact", "Authorization": LITERAL}},
    {"host": NAME, "headers": {"Authorization": f"Bearer {PLACEHOLDER}", "Accept-Encoding": "br", "X-Empty": ""}},
    {"host": OTHER, "headers": {"Authorization": PLACEHOLDER}},
]


@pytest.fixture(name="world")
def fixture_world(authorities):  # noqa: F811
    with running(authorities, RULES) as egress:
        yield egress


def all_of(headers, name):
    return [value for key, value in headers if key.lower() == name.lower()]


def sent(world, name, headers=(), **more):
    """What the host gets of one request."""
    host = world.host(name)
    with world.dial(name, host.port) as s:
        status, _, body = ask(s, headers=headers, host=name, **more)
    assert status == 200, body
    return host.requests[0][1], body


def test_a_header_is_set_and_replaced(world):
    mine = [("authorization", "Bearer mine"), ("AUTHORIZATION", "second"), ("X-Other", "stays")]
    got, body = sent(world, "own.deep.example.com", mine)
    assert all_of(got, "Authorization") == [LITERAL] and all_of(got, "X-Other") == ["stays"]
    assert LITERAL.encode() in body, "a literal of a rule is not a secret: it is not masked"


def test_without_the_guests_own(world):
    got, _ = sent(world, "own.deep.example.com")
    assert all_of(got, "Authorization") == [LITERAL]


@pytest.mark.parametrize("name, rule", [
    ("own.deep.example.com", ["exact"]), ("a.b.deep.example.com", ["deep"]), ("deep.example.com", ["wide"]),
    ("A.Example.com", ["wide"]), (NAME, []), ("a.example.org", [])])
def test_one_rule_applies(world, name, rule):
    """The exact name before a suffix, a long suffix before a short one; rules are not merged."""
    assert all_of(sent(world, name)[0], "X-Rule") == rule


def test_a_secret_in_a_rule(world):
    got, body = sent(world, NAME)
    assert all_of(got, "Authorization") == [f"Bearer {VALUE}"] and all_of(got, "X-Empty") == [""]
    assert VALUE.encode() not in body and b"*" * len(VALUE) in body, "the guest never sees the value"
    assert all_of(got, "Accept-Encoding") == ["identity"], "an echo must be found"


def test_a_secret_that_is_not_for_the_rules_host(world):
    host = world.host(OTHER)
    with world.dial(OTHER, host.port) as s:
        refused(world, s, 403, "API_KEY", "only for", OTHER, host=OTHER)
    assert not host.requests


def test_without_tls_no_rule_applies(world):
    host = world.host(tls=False)
    with world.connect(NAME, host.port, tls=False) as s:
        assert ask(s)[0] == 200
    assert all_of(host.requests[0][1], "Authorization") == []


def test_every_request_of_a_connection(world):
    name = "own.deep.example.com"
    host = world.host(name)
    with world.dial(name, host.port) as s:
        for _ in range(3):
            assert ask(s, "/x", "POST", body=b"abc", host=name)[0] == 200
    assert [all_of(headers, "Authorization") for _, headers, _ in host.requests] == [[LITERAL]] * 3


def test_a_placeholder_in_a_header_that_a_rule_replaces(world):
    """Where the guest's header is dropped, it must not hide a placeholder of another host."""
    name = "own.deep.example.com"
    host = world.host(name)
    with world.dial(name, host.port) as s:
        refused(world, s, 403, "API_KEY", "only for", headers=[("Authorization", PLACEHOLDER)], host=name)
    assert not host.requests


def test_the_echo_of_a_rule_is_json(world):
    _, body = sent(world, "x.deep.example.com")
    assert ["X-Rule", "deep"] in json.loads(body)["headers"]
