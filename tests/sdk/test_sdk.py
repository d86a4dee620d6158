# SPDX-License-Identifier: Apache-2.0
"""The official SDKs against cubbyd whose machines are processes, each scenario a test.

JavaScript and the current Python releases run with E2B_API_URL and E2B_SANDBOX_URL alone; Python
e2b 1.9, which knows neither, runs with E2B_DOMAIN, host names and TLS, as docs/clients.md says.
"""

import os
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest
from sdk import KEY, SCENARIOS, Guests, run_program
from wildcard import DOMAIN, Wildcard, certificate

# The first test of a program waits for all of it, and for the one whose turn was before.
pytestmark = [pytest.mark.timeout(1500),
              pytest.mark.skipif(os.geteuid() != 0, reason="only root can make users and mounts for envd")]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """The output of each program, as futures. Two run at a time, because each waits a lot."""
    with ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run_old if name == "python-1.9" else run_new, name,
                                 tmp_path_factory.mktemp(name)) for name in SCENARIOS}


def run_new(name, directory):
    with Guests() as daemon:
        return run_program(name, daemon.variables(), SCENARIOS[name], bare="bare")


def run_old(name, directory, scenarios=None):
    """With a domain, and the certificate of docs/clients.md."""
    cert, key = certificate(directory)
    with Guests("--tls-cert", cert, "--tls-key", key, "--domain", DOMAIN) as daemon:
        room = Wildcard(urllib.parse.urlsplit(daemon.url).port, directory)
        variables = {"E2B_API_KEY": KEY, "E2B_DOMAIN": DOMAIN, "SSL_CERT_FILE": str(cert),
                     "NODE_EXTRA_CA_CERTS": str(cert)}
        return run_program(name, variables, scenarios or SCENARIOS[name], bare="bare", room=room)


@pytest.mark.parametrize("name,scenario", [(n, s) for n, all_of in SCENARIOS.items() for s in all_of])
def test_sdk(outcomes, name, scenario):
    error = outcomes[name].result()[scenario]
    assert error is None, error


@pytest.mark.parametrize("name", ["js", "python"])
def test_the_newest_sdks_with_a_domain(name, tmp_path):
    """Python's refuses the certificate of an authority as a server's."""
    failed = {k: v for k, v in run_old(name, tmp_path, ["commands_run", "files_signed_urls"]).items() if v}
    assert not failed, failed
