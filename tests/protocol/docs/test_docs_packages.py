# SPDX-License-Identifier: Apache-2.0
"""The parts of the packages that can be checked without building one: the bill of materials, the copy of the
tree, the service's user. tests/packages builds and installs them.
"""

import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).parents[3]
BIN = pathlib.Path(os.environ["BIN"])
PACKAGE = ROOT / ".ci/package"


def test_the_bill_of_materials_names_each_library(tmp_path):
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000"}
    words = [PACKAGE / "sbom", "0.1.0", BIN, BIN.parent / "guest"]
    for name in "one", "two":
        subprocess.run([*words, tmp_path / name], env=env, check=True)
    bill = json.loads((tmp_path / "one").read_text())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert bill["spdxVersion"] == "SPDX-2.3" and bill["creationInfo"]["created"] == "2026-09-21T14:13:20Z"
    names = {package["name"] for package in bill["packages"]}
    assert names >= {"cubby", "libc6", "libssl3", "libslirp0", "libjansson4", "node-llhttp"}
    ids = [package["SPDXID"] for package in bill["packages"]]
    assert len(ids) == len(set(ids)) and all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one) for one in ids)
    assert all(relation["relatedSpdxElement"] in ids for relation in bill["relationships"])
    assert ("gvisor.dev/gvisor" in names) == (BIN / "runsc").exists()


def test_the_copied_tree_has_what_git_knows_and_no_build(tmp_path):
    subprocess.run([PACKAGE / "tree", tmp_path / "copy"], cwd=ROOT, check=True)
    assert (tmp_path / "copy/Makefile").read_bytes() == (ROOT / "Makefile").read_bytes()
    assert not (tmp_path / "copy/build").exists() and not (tmp_path / "copy/.git").exists()


def test_the_package_makes_the_user_of_the_service():
    unit = (ROOT / "sandbox-backend/daemon/cubbyd.service").read_text()
    user, home = re.search(r"^User=(\w+)", unit, re.M)[1], re.search(r"CUBBY_HOME=(\S+)", unit)[1]
    made = (PACKAGE / "debian/cubby.sysusers").read_text()
    assert re.search(rf"^u {user} - .* {home} ", made, re.M)
    assert f"groups kvm {user}" in (PACKAGE / "debian/cubby.postinst").read_text()
    assert user not in ("root", "") and home != "/var/lib/cubby"  # root's own daemon has that one
    assert f" {home} " in (PACKAGE / "debian/cubby.postrm").read_text()


def test_the_profile_names_the_programs_that_make_namespaces():
    profile = (PACKAGE / "debian/cubby.apparmor").read_text()
    (paths,) = re.findall(r"^profile cubby (\S+)", profile, re.M)
    assert "userns," in profile and "libexec/cubby/*" in paths and "bin/cubbyd" in paths


def test_the_compose_file_starts_programs_of_the_image():
    """Its words are options of cubbyd, its volume is the image's, and the image has the name that buildah gives it."""
    text = (ROOT / "docs/compose.yaml").read_text()
    image = (PACKAGE / "dist/image").read_text()
    version = re.search(r'CUBBY_VERSION "(.*)"', (ROOT / "sandbox-backend/base/version.h").read_text())[1]
    assert f"image: localhost/cubby:{version}" in text and ":cubby:$version" in image
    program, *words = re.search(r"entrypoint: \[(.*)\]", text)[1].split(", ")
    shown = subprocess.run([BIN / program, "--help"], capture_output=True, text=True, check=True).stdout
    assert all(f"  {word} " in shown or f"  {word}\n" in shown for word in words if word.startswith("--"))
    (volume,) = re.findall(r"volumes: \[home:(\S+)\]", text)
    assert f"--volume {volume} " in image and f"CUBBY_HOME={volume} " in image
