# SPDX-License-Identifier: Apache-2.0
"""The container image, run by runc without root and without any privilege: by hand, make test-image.

The test itself needs root only to unpack the image for another user.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from first_contact import first_output
from mcp_stdio import Stdio

BUILD = pathlib.Path(os.environ["BIN"]).parent
USER = 61234  # nobody's


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    (archive,) = BUILD.glob("cubby-*-image.tar")
    base = tmp_path_factory.mktemp("i")
    subprocess.run(["skopeo", "copy", "-q", f"oci-archive:{archive}", f"oci:{base}/layout:latest"], check=True)
    subprocess.run(["umoci", "unpack", "--rootless", "--image", f"{base}/layout:latest", base / "bundle"], check=True, capture_output=True)
    labels = json.loads(subprocess.run(["skopeo", "inspect", "--config", f"oci:{base}/layout:latest"], check=True,
                                       capture_output=True, text=True).stdout)["config"]["Labels"]
    shutil.rmtree(base / "layout")
    yield base, labels
    shutil.rmtree(base)


class Container:
    """A container of runc, as an ordinary user without capabilities, with a read-only root and no /dev/kvm."""

    def __init__(self, base):
        self.bundle, self.volume, self.state = base / "bundle", base / "volume", base / "state"
        for path in self.volume, self.state:
            path.mkdir(exist_ok=True)
            os.chown(path, USER, USER)
        for path in base, base.parent, base.parent.parent:
            path.chmod(path.stat().st_mode | 0o011)
        os.chown(self.bundle, USER, USER)
        subprocess.run(["chown", "-R", f"{USER}:{USER}", self.bundle / "rootfs"], check=True)
        self.spec = json.loads((self.bundle / "config.json").read_text())
        self.count = 0

    def words(self, *args):
        spec, one = self.spec, [{"containerID": 0, "hostID": USER, "size": 1}]
        spec["process"].update(terminal=False, args=list(args), user={"uid": 0, "gid": 0}, capabilities={}, rlimits=[])
        spec["linux"].update(uidMappings=one, gidMappings=one)
        spec["root"] = {"path": "rootfs", "readonly": True}
        spec["mounts"] = [mount for mount in spec["mounts"] if mount["destination"] not in ("/data", "/tmp")] + [
            {"destination": "/data", "type": "bind", "source": str(self.volume), "options": ["bind", "rw", "nosuid", "nodev"]},
            {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]}]
        (self.bundle / "config.json").write_text(json.dumps(spec))
        self.count += 1
        return ["--reuid", str(USER), "--regid", str(USER), "--clear-groups", "env", f"XDG_RUNTIME_DIR={self.state}", shutil.which("runc"),
                "--root", str(self.state), "run", "--bundle", str(self.bundle), f"cubby-{os.getpid()}-{self.count}"]

    def run(self, *args):
        return subprocess.run(["setpriv", *self.words(*args)], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    @contextlib.contextmanager
    def server(self):
        mcp = Stdio(*self.words("cubby-mcp"), program=shutil.which("setpriv"))
        try:
            yield mcp
        finally:
            mcp.finish()


@pytest.fixture(scope="module")
def container(unpacked):
    return Container(unpacked[0])


def test_its_labels(unpacked):
    labels = unpacked[1]
    assert labels["org.opencontainers.image.title"] == "Cubby" and labels["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "/cubby-mcp" in labels["io.modelcontextprotocol.server.name"]


def test_doctor_says_what_it_lacks(container):
    said = container.run("cubby", "doctor", "--json")
    found = {finding["name"]: finding for finding in json.loads(said.stdout)}
    assert found["qemu"]["level"] == "ok" and found["programs"]["level"] == "ok" and found["kvm"]["level"] == "note"


@pytest.mark.timeout(1200)
def test_a_sandbox_without_privileges(container):
    """The entry point: the client gets its answer at once, and a sandbox when the template is ready."""
    began = time.monotonic()
    with container.server() as mcp:
        sandbox = first_output(mcp, began)
        assert "42" in mcp.text("run_python_code", sandbox_id=sandbox, code_block="print(6 * 7)")
    began = time.monotonic()
    with container.server() as mcp:  # the volume has the template now
        mcp.initialize("2025-11-25")
        sandbox = mcp.result("create_sandbox")["structuredContent"]["sandbox_id"]
        assert "works" in mcp.text("run_command", sandbox_id=sandbox, command="echo works")
        print(f"again {time.monotonic() - began:.1f}")


def test_a_daemon_that_listens(container):
    """cubbyd is in the image too; it refuses an open network without keys, as everywhere."""
    said = container.run("cubbyd", "--listen", "0.0.0.0:0")
    assert said.returncode != 0 and "key" in said.stderr
