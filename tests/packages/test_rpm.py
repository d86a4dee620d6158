# SPDX-License-Identifier: Apache-2.0
"""The rpm: the same bytes from two builds, the files of `make install`, and its installation with `rpm --root`, where
no distribution is. By hand, as root: make test-rpm.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ["BIN"]).parent
TREE = BUILD / "portable/tree"
# Of the distribution; everything else is linked in, or lies in libexec.
LIBRARIES = {"libc", "libm", "libcurl", "libjose", "ld-linux-x86-64"}


@pytest.fixture(scope="module")
def package():
    (path,) = BUILD.glob("cubby-*.x86_64.rpm")
    return path


@pytest.fixture(scope="module")
def root(package, tmp_path_factory):
    """The package is in a directory with nothing else, so neither its dependencies nor its scripts can be."""
    where = tmp_path_factory.mktemp("root")
    rpm("--root", where, "--initdb")
    rpm("--root", where, "-i", "--nodeps", "--noscripts", package)
    return where


def rpm(*words, check=True):
    done = subprocess.run(["rpm", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done.stdout


def files(where):
    """Files below usr."""
    return {str(path.relative_to(where)) for path in (where / "usr").rglob("*") if not path.is_dir() and "lib/sysimage" not in str(path)}


@pytest.mark.timeout(900)
def test_two_builds_are_the_same_bytes(package, tmp_path):
    words = [ROOT / ".ci/package/rpm", TREE, "0.1.0", tmp_path]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True, timeout=600)
    (again,) = tmp_path.glob("*.rpm")
    assert again.read_bytes() == package.read_bytes()


def test_it_has_what_make_install_puts_there(root):
    wanted = {f"usr/{line}" for line in (TREE / "share/cubby/manifest").read_text().split()} - {
        "usr/share/cubby/manifest", "usr/share/cubby/glibc"}
    moved = {"usr/share/doc/cubby/LICENSE": "usr/share/licenses/cubby/LICENSE"}
    wanted = {moved.get(name, name).replace("share/doc/cubby/licences/", "share/licenses/cubby/") for name in wanted}
    wanted = {f"{name}.gz" if "/man/" in name else name for name in wanted} | {
        "usr/lib/sysusers.d/cubby.conf", "usr/lib/tmpfiles.d/cubby.conf"}
    assert files(root) == wanted
    for name in ("bin/cubby-mcp", "share/man/man1/cubbyd.1.gz", "share/bash-completion/completions/cubby", "lib/systemd/system/cubbyd.service",
                 "share/doc/cubby/sbom.spdx.json", "libexec/cubby/runsc", "lib/cubby/guest/init"):
        assert f"usr/{name}" in wanted, name
    for kind in "system", "user":
        assert "ExecStart=/usr/bin/cubbyd" in (root / f"usr/lib/systemd/{kind}/cubbyd.service").read_text()


def test_its_programs_find_each_other(root, tmp_path):
    env = {**os.environ, "CUBBY_HOME": str(tmp_path)}
    done = subprocess.run([root / "usr/bin/cubby", "doctor", "--json"], env=env, capture_output=True, text=True, timeout=120)
    found = {finding["name"]: finding for finding in json.loads(done.stdout)}
    assert found["programs"]["level"] == "ok", done.stdout
    assert found["runsc"]["level"] == "ok", done.stdout


def test_what_it_needs_is_in_other_distributions(package):
    """Sonames of glibc and of the two libraries that are loaded when they are needed; packages by Fedora's names."""
    needed = rpm("-qp", "--requires", package).splitlines()
    assert {re.match(r"[^.(]*", name)[0] for name in needed if ".so." in name} <= LIBRARIES, needed
    assert {"qemu-system-x86", "qemu-img", "erofs-utils"} <= set(needed) and not [name for name in needed if "python" in name]
    assert not [name for name in rpm("-qp", "--provides", package).split() if ".so" in name]
    newest = max(tuple(map(int, version.split("."))) for name in needed for version in re.findall(r"^libc\.so\.6\(GLIBC_([0-9.]+)\)", name))
    assert newest <= tuple(map(int, (TREE / "share/cubby/glibc").read_text().strip().split(".")))


def test_its_files_are_whole_until_one_changes(root):
    assert rpm("--root", root, "-V", "--nodeps", "--noscripts", "cubby") == ""
    page = root / "usr/share/doc/cubby/README.md"
    text = page.read_bytes()
    page.write_bytes(text + b"x")
    assert "README.md" in rpm("--root", root, "-V", "--nodeps", "--noscripts", "cubby", check=False)
    page.write_bytes(text)


def test_a_full_disk_or_an_end_leaves_the_installed_version(package, root):
    """rpm checks the space first. A file system of 20 MB has too little."""
    small = root.parent / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "small", small], check=True)
    try:
        rpm("--root", small, "--initdb")
        done = subprocess.run(["rpm", "--root", small, "-i", "--nodeps", "--noscripts", package], capture_output=True, text=True, timeout=300)
        assert done.returncode != 0 and "needs" in done.stderr and not files(small), done
    finally:
        subprocess.run(["umount", small], check=True)


def test_a_second_installation_and_the_removal(package, root):
    rpm("--root", root, "-U", "--force", "--nodeps", "--noscripts", package)
    before = files(root)
    mine = root / "usr/share/cubby/mine"
    mine.write_text("another file")
    rpm("--root", root, "-e", "--nodeps", "--noscripts", "cubby")
    assert before and files(root) == {"usr/share/cubby/mine"}
    shutil.rmtree(root / "usr")


@pytest.mark.timeout(900)
def test_its_scripts_make_the_user_of_the_service(package, tmp_path):
    """In the root file system of a bare Debian, where `make test-packages` has left one: rpm runs the scripts there."""
    archive = BUILD / "package/roots/bookworm.tar"
    if not archive.exists():
        subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", "bookworm", tmp_path / "root.tar"], check=True, timeout=600)
        archive = tmp_path / "root.tar"
    where = tmp_path / "root"
    where.mkdir()
    subprocess.run(["tar", "-C", where, "--numeric-owner", "-xpf", archive], check=True)
    rpm("--root", where, "--initdb")
    rpm("--root", where, "-i", "--nodeps", package)
    users = (where / "etc/passwd").read_text()
    assert re.search(r"^cubby:.*:/var/lib/cubbyd:/usr/sbin/nologin$", users, re.M), users
    rpm("--root", where, "-e", "--nodeps", "cubby")
    assert not (where / "usr/bin/cubby").exists()
