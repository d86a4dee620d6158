# SPDX-License-Identifier: Apache-2.0
"""The Debian packages: the same bytes from two builds, installed and used in bare roots of Debian 12 and 13,
with faults, and removed without a trace. By hand, as root: make test-packages. docs/packages.md has the figures that it prints.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ["BIN"]).parent
HERE = pathlib.Path(__file__).parent
VERSION = re.search(r'CUBBY_VERSION "(.*)"', (ROOT / "sandbox-backend/base/version.h").read_text())[1]


def packages():
    (cubby,) = BUILD.glob("cubby_*_amd64.deb")
    (template,) = BUILD.glob("cubby-template-default_*_amd64.deb")
    return cubby, template


@pytest.mark.timeout(1800)
def test_two_builds_are_the_same_bytes():
    before = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages()[:1]}
    done = subprocess.run(["make", "-C", ROOT, "deb", f"BUILD={BUILD}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in packages()[:1]} == before


@pytest.mark.timeout(1800)
def test_the_template_package_has_the_same_bytes_again(tmp_path):
    (tmp_path / "package").mkdir()
    _, template = packages()
    subprocess.run([ROOT / ".ci/package/deb-template", tmp_path, VERSION, BUILD / "default.cubby"], cwd=ROOT, check=True,
                   capture_output=True)
    assert (tmp_path / template.name).read_bytes() == template.read_bytes()


def test_the_parts_of_the_package(tmp_path):
    """Each file that other programs of the system read, as they read it."""
    subprocess.run(["dpkg-deb", "-x", packages()[0], tmp_path], check=True)
    usr = tmp_path / "usr"
    users = (usr / "lib/sysusers.d/cubby.conf").read_text().splitlines()
    assert 'u cubby - "Cubby sandboxes" /var/lib/cubbyd /usr/sbin/nologin' in users
    directories = (usr / "lib/tmpfiles.d/cubby.conf").read_text().splitlines()
    assert "d /var/lib/cubby-templates 0755 root root -" in directories
    profile = (usr / "share/cubby/apparmor/cubby").read_text()
    named = re.search(r"^profile cubby /usr/{(.*)} flags=\(unconfined\)", profile, re.M)[1].split(",")
    assert all(list(usr.glob(name)) for name in named) and "userns," in profile
    subprocess.run(["dpkg-deb", "-e", packages()[0], tmp_path / "control"], check=True)
    script = (tmp_path / "control/postinst").read_text()
    for user in "", "--user ":  # an upgrade keeps what the host has enabled, and an installation enables nothing
        assert script.count(f"deb-systemd-helper {user}enable ") == script.count(f"if deb-systemd-helper {user}debian-installed ")
    for kind in "system", "user":
        assert "ExecStart=/usr/bin/cubbyd" in (usr / f"lib/systemd/{kind}/cubbyd.service").read_text()
    for page in ROOT.glob("docs/man/*.1"):
        assert (usr / f"share/man/man1/{page.name}.gz").exists(), page
    for name in ("share/bash-completion/completions/cubby", "share/zsh/vendor-completions/_cubby", "share/fish/vendor_completions.d/cubby.fish",
                 "share/doc/cubby/mcp.json.example", "share/doc/cubby/copyright"):
        assert (usr / name).exists(), name
    runsc = hashlib.sha256((usr / "libexec/cubby/runsc").read_bytes()).hexdigest()
    assert runsc in (ROOT / "sandbox-backend/drivers/gvisor/runsc_pin.h").read_text()


def test_the_bill_of_materials(tmp_path):
    """It names each library that dpkg-shlibdeps found, what is linked in, and runsc; and relates each element."""
    package = packages()[0]
    subprocess.run(["dpkg-deb", "-x", package, tmp_path], check=True)
    bill = json.loads((tmp_path / "usr/share/doc/cubby/sbom.spdx.json").read_text())
    assert bill["spdxVersion"] == "SPDX-2.3" and bill["dataLicense"] == "CC0-1.0" and bill["creationInfo"]["created"].endswith("Z")
    names = {element["SPDXID"]: element["name"] for element in bill["packages"]}
    assert len(names) == len(bill["packages"])
    related = {names[relation["relatedSpdxElement"]] for relation in bill["relationships"]}
    assert related == set(names.values())
    depends = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, capture_output=True, text=True).stdout
    libraries = {words.split()[0] for words in depends.split(",") if words.strip().startswith("lib")}
    loaded = {"libcurl4", "libjose0"}  # when they are needed, so no program names them
    assert libraries - loaded <= related and len(libraries) > 8
    assert {"node-llhttp", "libuv1-dev", "gvisor.dev/gvisor", "@xterm/xterm"} <= related


def in_a_bare_root(suite, script, tmp_path):
    """Run a script there, and return the words of its lines."""
    for path in *packages(), HERE / script:
        shutil.copy(path, tmp_path)
    done = subprocess.run([ROOT / ".ci/package/bare", suite, BUILD / "package/roots", packages()[0], tmp_path, "sh", f"/shared/{script}"],
                          capture_output=True, text=True)
    print(f"\n{suite} {script}", done.stdout, done.stderr, sep="\n")
    assert done.returncode == 0
    return {**dict(re.findall(r"^(\w+) (.*)$", done.stdout, re.M)), "all": done.stdout}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite, qemu_of_the_archive", [("bookworm", True), ("trixie", False)])
def test_install_use_upgrade_and_purge(suite, qemu_of_the_archive, tmp_path):
    said = in_a_bare_root(suite, "inside.sh", tmp_path)
    assert said["next"] == "1" and said["setup"].split()[0] == "0"
    assert said["output"].split()[0] == "works"
    assert said["fetched"].startswith("0 B/")  # the times have no network in them
    assert {"cubbyd", "cubby-mcp", "qemu-system-x86_64"} <= set(re.findall(r"^idle microvm (\S+):", said["all"], re.M))
    assert said["machine"] == ("1" if qemu_of_the_archive else "0")
    assert said["apparmor"] == ("none" if suite == "bookworm" else "read")
    assert said["where"] == "/var/lib/cubby-templates/default " and said["someone"] == "shared "
    assert said["upgraded"] == "kept" and said["selftest"] == "0"
    assert said["user"] == "/var/lib/cubbyd" and said["alive"] == "0" and said["left"] == "0"


@pytest.mark.timeout(1800)
def test_faults_of_an_installation(tmp_path):
    said = in_a_bare_root("bookworm", "faults.sh", tmp_path)
    status, reasons, left = said["full"].split()
    assert status != "0" and reasons != "0" and left == "0"
    assert said["killed"] == "137" and said["repeated"] == "0 0 1"
    assert said["enabled"] == "0"
    assert said["cut"] == "1 0" and said["changed"] == "1 0"
    assert said["one"] == "0 works" and said["two"] == "0 works"
    assert said["during"] == "0 T works"  # it was stopped while the files were replaced
    assert said["early"] == "0 1 0 0 0"  # one part was being made, and nothing of it or of the package stays
