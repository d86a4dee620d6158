# SPDX-License-Identifier: Apache-2.0
"""The examples in docs/fleet/: each variable is an option of cubbyd, and the Kubernetes parts fit together."""

import pathlib
import re
import subprocess

import pytest

from harness import BIN

FLEET = pathlib.Path(__file__).parents[3] / "docs/fleet"
NOT_OPTIONS = {"CUBBY_HOME"}


@pytest.fixture(scope="module")
def variables():
    shown = subprocess.run([BIN / "cubbyd", "--help"], capture_output=True, text=True, check=True, timeout=60).stdout
    options = re.findall(r"^  --([a-z-]+)", shown, re.M)
    return {"CUBBY_" + option.upper().replace("-", "_") for option in options} | NOT_OPTIONS


@pytest.mark.parametrize("name", sorted(path.name for path in FLEET.iterdir()))
def test_each_variable_is_an_option(name, variables):
    used = set(re.findall(r"\bCUBBY_[A-Z_]+", (FLEET / name).read_text()))
    assert "CUBBY_NODE" in used and "CUBBY_KEYS" in used and "CUBBY_PEERS" in used
    assert used <= variables


def test_the_parts_of_the_kubernetes_manifest_fit():
    service, stateful = re.split(r"^---$", (FLEET / "kubernetes.yaml").read_text(), flags=re.M)
    label = re.search(r"selector: (\{.*\})", service)[1]
    assert stateful.count(label) == 3  # its own, the selector's and the pod's
    assert re.search(r"serviceName: (\w+)", stateful)[1] == re.search(r"name: (\w+)", service)[1]
    ports = dict(re.findall(r"name: (\w+), containerPort: (\d+)", stateful))
    assert ports == dict(re.findall(r"name: (\w+), port: (\d+), targetPort: \1\b", service))
    for name, variable in (("api", "LISTEN"), ("agent", "AGENT")):
        assert f'CUBBY_{variable}, value: "0.0.0.0:{ports[name]}"' in stateful
    mounted = set(re.findall(r"name: (\w+), mountPath", stateful))
    volumes = set(re.findall(r"- name: (\w+)\n +secret", stateful)) | {"home"}
    assert mounted == volumes and "metadata: {name: home}" in stateful
