# SPDX-License-Identifier: Apache-2.0
"""The channels of a release: npx, uvx, MCPB and the tarball with install.sh, packed from this tree's programs and
installed from files. tests/packages does the same with the portable programs.
"""

import base64
import contextlib
import csv
import functools
import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import subprocess
import tarfile
import threading
import zipfile

import pytest

from mcp_stdio import Stdio

ROOT = pathlib.Path(__file__).parents[3]
DIST = ROOT / ".ci/package/dist"
BIN = pathlib.Path(os.environ["BIN"])
GUEST = pathlib.Path(os.environ["GUEST"])
UVX = pathlib.Path(os.environ["FRAMEWORKS"]) / "uv/bin/uvx"
VERSION = "0.1.0"


def make_tree(tree, glibc="2.31"):
    for name in [*BIN.glob("cubby*"), BIN / "git-remote-cubby"]:
        place = tree / ("bin" if name.name in ("cubby", "cubbyd", "cubby-mcp", "git-remote-cubby") else "libexec/cubby")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(name, place)
    shutil.copytree(GUEST, tree / "lib/cubby/guest")
    (tree / "share/cubby").mkdir(parents=True)
    (tree / "share/cubby/glibc").write_text(glibc + "\n")
    files = sorted(str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file())
    (tree / "share/cubby/manifest").write_text("\n".join([*files, "share/cubby/manifest"]) + "\n")
    return tree


def pack(tree, out, *more):
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000"}
    subprocess.run([DIST / "channels", tree, out, VERSION, *more], env=env, check=True, capture_output=True)
    return {path.suffix: path for path in out.iterdir()}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    base = tmp_path_factory.mktemp("d")
    return pack(make_tree(base / "tree"), base / "out", "--release-url", "https://example.org/r")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A tree with one small program, for what does not depend on its size. It needs a glibc of the future."""
    tree = tmp_path_factory.mktemp("s")
    (tree / "bin").mkdir()
    (tree / "bin/cubby-mcp").write_text("#!/bin/sh\n")
    (tree / "bin/cubby-mcp").chmod(0o755)
    (tree / "share/cubby").mkdir(parents=True)
    (tree / "share/cubby/glibc").write_text("9.99\n")
    return tree


def environment(tmp_path, **more):
    """A user who has nothing yet, and no network."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CUBBY_")}
    return {**kept, "CUBBY_HOME": str(tmp_path / "h"), "CUBBY_SYSTEM_TEMPLATES": "", "npm_config_cache": str(tmp_path / "npm"),
            "UV_CACHE_DIR": str(tmp_path / "uv"), "npm_config_offline": "true", "UV_OFFLINE": "1", **more}


def npx(package):
    return [shutil.which("npx"), "-y", f"--package={package}"]


def uvx(package):
    return [str(UVX), "-q", "--python", "/usr/bin/python3", "--from", str(package)]


LAUNCHERS = [pytest.param(npx, ".tgz", id="npx"), pytest.param(uvx, ".whl", id="uvx")]


@contextlib.contextmanager
def server(words, env, tmp_path):
    program, *args = words
    mcp = Stdio(*args, "cubby-mcp", env=env, cwd=tmp_path, program=program)
    try:
        yield mcp
    finally:
        mcp.finish()


@pytest.mark.parametrize("launcher, suffix", LAUNCHERS)
def test_a_launcher_serves_a_client(made, launcher, suffix, tmp_path):
    """The server answers, and a tool names what is missing: the template archive does not exist."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in "qemu-system-x86_64", "qemu-img":
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    env = environment(tmp_path, CUBBY_TEMPLATE_ARCHIVE="/nonexistent.cubby", PATH=f"{tools}:{os.environ['PATH']}")
    with server(launcher(made[suffix]), env, tmp_path) as mcp:
        mcp.initialize("2025-11-25")
        names = {tool["name"] for tool in mcp.call("tools/list", request_id="t")["result"]["tools"]}
        assert "create_sandbox" in names
        said = mcp.error("create_sandbox")
        assert said.startswith("not_prepared: ") and "/nonexistent.cubby" in said


@pytest.mark.parametrize("launcher, suffix", LAUNCHERS)
def test_a_launcher_passes_on_words_and_status(made, launcher, suffix, tmp_path):
    run = functools.partial(subprocess.run, env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    done = run([*launcher(made[suffix]), "cubby", "--version"])
    assert done.returncode == 0 and done.stdout == f"cubby {VERSION}\n"
    assert run([*launcher(made[suffix]), "cubby", "nonsense"]).returncode == 2


def test_a_launcher_refuses_an_older_glibc(small, tmp_path):
    packed = pack(small, tmp_path / "out")
    done = subprocess.run([*npx(packed[".tgz"]), "cubby-mcp"], env=environment(tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "needs glibc 9.99 or newer, and this computer has 2." in done.stderr
    # uv refuses the wheel itself, by its tag; pip's users may force it.
    assert packed[".whl"].name.endswith("-manylinux_9_99_x86_64.whl")
    with zipfile.ZipFile(packed[".whl"]) as wheel:
        wheel.extractall(tmp_path / "w")
    forced = subprocess.run(["/usr/bin/python3", "-m", "cubby_mcp"], cwd=tmp_path / "w", capture_output=True, text=True, timeout=120)
    assert forced.returncode == 1 and "needs glibc 9.99 or newer" in forced.stderr


def test_the_same_tree_gives_the_same_bytes(small, tmp_path):
    one, two = pack(small, tmp_path / "1"), pack(small, tmp_path / "2")
    assert sorted(one) == [".gz", ".json", ".mcpb", ".tgz", ".whl"]
    for suffix, path in one.items():
        assert path.read_bytes() == two[suffix].read_bytes()


def test_the_wheel_records_each_file(made):
    with zipfile.ZipFile(made[".whl"]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("RECORD")]
        rows = {row[0]: row[1] for row in csv.reader(io.StringIO(wheel.read(name).decode()))}
        assert set(rows) == set(wheel.namelist())
        for member, digest in rows.items():
            if member != name:
                sum_ = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(member)).digest()).rstrip(b"=").decode()
                assert digest == f"sha256={sum_}"
        mode = wheel.getinfo("cubby_mcp/tree/bin/cubby-mcp").external_attr >> 16
    assert mode & 0o777 == 0o755 and "manylinux_2_31_x86_64" in made[".whl"].name


def test_the_registry_entry_names_each_package(made):
    entry = json.loads(made[".json"].read_text())
    kinds = {package["registryType"]: package for package in entry["packages"]}
    assert set(kinds) == {"npm", "pypi", "mcpb"} and len(entry["description"]) <= 100
    assert kinds["mcpb"]["fileSha256"] == hashlib.sha256(made[".mcpb"].read_bytes()).hexdigest()
    assert kinds["mcpb"]["identifier"] == f"https://example.org/r/{made['.mcpb'].name}"
    with tarfile.open(made[".tgz"]) as npm:  # the registry compares these with the entry's name
        assert json.load(npm.extractfile("package/package.json"))["mcpName"] == entry["name"]
    with zipfile.ZipFile(made[".whl"]) as wheel:
        assert f"mcp-name: {entry['name']}" in wheel.read(f"cubby_mcp-{VERSION}.dist-info/METADATA").decode()


def test_the_bundle_lists_the_tools(made):
    with zipfile.ZipFile(made[".mcpb"]) as bundle:
        manifest = json.loads(bundle.read("manifest.json"))
        entry = bundle.getinfo(manifest["server"]["entry_point"])
    assert entry.external_attr >> 16 & 0o777 == 0o755
    schemas = json.loads((ROOT / "schemas/tools.json").read_text())
    assert {t["name"] for t in manifest["tools"]} == {t["name"] for t in schemas} - {"build_template"}


# ---- install.sh

class Release:
    """The files of a release on a web server of this host."""

    def __init__(self, base, tarball):
        self.files = base / "release"
        self.files.mkdir()
        shutil.copy(tarball, self.files)
        (self.tarball,) = self.files.glob("*.tar.gz")
        self.sign()
        handler = functools.partial(Quiet, directory=str(self.files))
        self.web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.web.serve_forever, args=(0.02,), daemon=True).start()
        text = (DIST / "install.sh").read_text().replace("@VERSION@", VERSION).replace("@GLIBC@", "2.31").replace("@URL@", "")
        self.script = base / "install.sh"
        self.script.write_text(text)
        self.home = base / "home"
        self.home.mkdir()

    def sign(self):
        digest = hashlib.sha256(self.tarball.read_bytes()).hexdigest()
        (self.files / "SHA256SUMS").write_text(f"{digest}  {self.tarball.name}\n")

    def install(self, *words, **env):
        url = f"http://127.0.0.1:{self.web.server_port}"
        return subprocess.run(["sh", self.script, "--prefix", self.home / "p", *words], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "HOME": str(self.home), "CUBBY_RELEASE_URL": url, **env})

    def installed(self):
        return sorted(str(path.relative_to(self.home / "p")) for path in (self.home / "p").rglob("*") if path.is_file())


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *words):
        pass


@pytest.fixture
def release(made, tmp_path):
    r = Release(tmp_path, made[".gz"])
    yield r
    r.web.shutdown()
    r.web.server_close()


def test_install_upgrade_and_uninstall(release, made):
    done = release.install()
    assert done.returncode == 0, done.stderr
    assert f"next: {release.home}/p/bin/cubby setup" in done.stdout and "add it to your PATH" in done.stdout
    version = subprocess.run([release.home / "p/bin/cubby", "--version"], capture_output=True, text=True)
    assert version.stdout == f"cubby {VERSION}\n"
    manifest = release.home / "p/share/cubby/manifest"
    assert release.installed() == sorted(manifest.read_text().split())
    # An earlier version had a file that is gone now; a file of the user's stays.
    (release.home / "p/bin/cubby-old").write_text("old")
    (release.home / "p/bin/mine").write_text("mine")
    manifest.write_text(manifest.read_text() + "bin/cubby-old\n")
    assert release.install().returncode == 0
    assert "bin/cubby-old" not in release.installed() and "bin/mine" in release.installed()
    gone = release.install("--uninstall")
    assert gone.returncode == 0 and release.installed() == ["bin/mine"]
    again = release.install("--uninstall")
    assert again.returncode == 1 and "nothing of Cubby is below" in again.stderr


@pytest.mark.parametrize("damage", [
    lambda data: data[:-100], lambda data: data[:1000] + bytes([data[1000] ^ 1]) + data[1001:], lambda data: b""])
def test_a_damaged_tarball_installs_nothing(release, damage):
    release.tarball.write_bytes(damage(release.tarball.read_bytes()))
    done = release.install()
    assert done.returncode == 1 and "another checksum" in done.stderr and release.installed() == []


def test_a_release_that_is_not_there(release):
    release.tarball.unlink()
    done = release.install()
    assert done.returncode == 1 and f"cannot download http://127.0.0.1:{release.web.server_port}/" in done.stderr
    assert release.installed() == []


def test_an_older_glibc_is_refused_before_anything_is_downloaded(release):
    release.script.write_text(release.script.read_text().replace("glibc=2.31", "glibc=9.99"))
    done = release.install(CUBBY_RELEASE_URL="http://127.0.0.1:9")
    assert done.returncode == 1 and "needs glibc 9.99 or newer" in done.stderr


def test_the_signature_must_be_from_the_key(release, tmp_path):
    def key(name):
        subprocess.run(["minisign", "-G", "-W", "-p", tmp_path / f"{name}.pub", "-s", tmp_path / f"{name}.key"], check=True,
                       capture_output=True, stdin=subprocess.DEVNULL)
        return tmp_path / f"{name}.pub", tmp_path / f"{name}.key"

    public, secret = key("good")
    other, _ = key("other")
    missing = release.install("--key", public)
    assert missing.returncode == 1 and "SHA256SUMS.minisig" in missing.stderr
    subprocess.run(["minisign", "-S", "-s", secret, "-m", release.files / "SHA256SUMS"], check=True, capture_output=True,
                   stdin=subprocess.DEVNULL)
    wrong = release.install("--key", other)
    assert wrong.returncode == 1 and "not from this key" in wrong.stderr and release.installed() == []
    assert release.install("--key", public).returncode == 0
    release.sign()
    (release.files / "SHA256SUMS").write_text((release.files / "SHA256SUMS").read_text() + "\n")  # changed after signing
    assert release.install("--key", public).returncode == 1
