# SPDX-License-Identifier: Apache-2.0
"""A whole build with --pip, --npm, --script and --modules docker, and Docker's engine in a sandbox of it.

The build takes minutes, so one template serves all tests of this file.
"""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from harness import BIN, TEST_HOME

pytestmark = pytest.mark.timeout(2400)  # a build takes minutes, on a busy host many

SCRIPT = """echo ran > /etc/cubby-script
python3 -c 'import tabulate'
test -d /cubby-build
"""
ENGINE = """set -e
sudo sh -c 'dockerd > /tmp/dockerd.log 2>&1 &'
for i in $(seq 120); do sudo docker info > /dev/null 2>&1 && break; sleep 1; done
mkdir -p /tmp/img/bin && cp /bin/busybox /tmp/img/bin/
tar -C /tmp/img -c . | sudo docker import - box > /dev/null
sudo docker run --rm box /bin/busybox echo from the container
sudo docker run --rm box /bin/busybox ip -4 addr show eth0
"""


@pytest.fixture(scope="module")
def home():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cubby-extras-"))
    cache = pathlib.Path(TEST_HOME) / "cache" / "apt"
    if cache.exists():
        shutil.copytree(cache, folder / "cache" / "apt")
    (folder / "script").write_text(SCRIPT)
    yield folder
    cubby(folder, "kill", "--all")
    cubby(folder, "daemon", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def cubby(home, *words, timeout=120):
    return subprocess.run([BIN / "cubby", *words], env=dict(os.environ, CUBBY_HOME=str(home)), capture_output=True,
                          text=True, timeout=timeout, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def template(home):
    answer = cubby(home, "template", "build", "extras", "--minimal", "--json", "--modules", "docker", "--packages",
                   "docker.io,iptables,busybox-static,python3-pexpect", "--pip", "tabulate,six>=1,pexpect>=4.9", "--npm", "semver", "--script",
                   str(home / "script"), timeout=1800)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


@pytest.fixture(scope="module")
def sandbox(home, template):
    answer = cubby(home, "create", "--template", "extras")
    assert answer.returncode == 0, answer
    return answer.stdout.strip()


def run(home, sandbox, script, timeout=120):
    return cubby(home, "exec", sandbox, "--", "bash", "-lc", script, timeout=timeout)


def test_the_facts_of_the_template(template):
    assert template["modules"] == "docker" and template["tiers"] == ["microvm"] and "missing" not in template


def test_packages_and_script_are_there(home, sandbox):
    answer = run(home, sandbox, "cat /etc/cubby-script; python3 -c 'import tabulate, six; print(six.__name__)'; semver 1.2.3")
    assert answer.stdout == "ran\nsix\n1.2.3\n", answer


def test_pip_goes_before_what_it_cannot_remove(home, sandbox):
    """Debian's pexpect is of a kind that pip refuses to uninstall."""
    answer = run(home, sandbox, "python3 -c 'import pexpect; print(pexpect.__file__)'")
    assert answer.stdout == "/usr/local/lib/python3.11/dist-packages/pexpect/__init__.py\n", answer


def test_nothing_of_the_hosts_settings_stays(home, sandbox):
    answer = run(home, sandbox, "sudo sh -c 'ls -A /cubby-build /root/.npmrc /root/.npm /root/.cache /root/.config; env'")
    assert answer.stdout.count("PIP_") == 0 and "npm_config" not in answer.stdout, answer
    assert answer.stderr.count("No such file") == 5, answer


def test_a_container_runs(home, sandbox):
    answer = run(home, sandbox, ENGINE, timeout=600)
    assert answer.returncode == 0, (answer, run(home, sandbox, "tail -n 20 /tmp/dockerd.log").stdout)
    assert "from the container\n" in answer.stdout and "inet 172." in answer.stdout
