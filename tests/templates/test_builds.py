# SPDX-License-Identifier: Apache-2.0
"""`make test-builds`: faults of builds that take minutes. It needs root, which mounts a small file system."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../e2e"))

from harness import BIN, TEST_HOME, Home  # noqa: E402
from liar import Liar  # noqa: E402
from oci_image import Layout, busybox_layer, file  # noqa: E402
from test_build import Builder, output, steps  # noqa: E402

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
def builder(tmp_path):
    b = Builder(tmp_path)
    yield b
    b.close()


def test_a_registry_that_stalls(tmp_path):
    """Half of a layer, and then nothing."""
    layout = Layout(tmp_path / "image")
    layout.write([busybox_layer(shutil.which("busybox"))])
    home, liar = Home(), Liar(layout, "layer", "silence")
    (home.path / "templates").unlink()
    try:
        begin = time.monotonic()
        done = subprocess.run(["build/bin/cubby", "template", "build", "stalled", "--plain-http", "--from", liar.reference()],
                              env=home.env, capture_output=True, text=True, timeout=400)
        assert liar.silent.is_set() and done.returncode == 1, done
        assert "got no more data" in done.stderr and 120 <= time.monotonic() - begin < 240, done.stderr
        assert os.listdir(home.path / "templates") == []
    finally:
        liar.close()
        home.close()


def header(name):
    info = tarfile.TarInfo(name)
    info.mode = 0o755
    return info.tobuf(tarfile.USTAR_FORMAT)


def numbered(count):
    """The headers of empty files with different names, by thousands."""
    one = bytearray(header("f0000000"))
    one[148:156] = b" " * 8  # as the sum of a header counts it
    rest = sum(one) - sum(b"0000000")
    for first in range(0, count, 1000):
        many = b""
        for number in range(first, first + 1000):
            digits = b"%07d" % number
            one[1:8], one[148:156] = digits, b"%06o\0 " % (rest + sum(digits))
            many += one
            one[148:156] = b" " * 8
        yield many


@pytest.mark.parametrize("parts, said", [
    (lambda: (header("same") * 1000 for _ in range(10_000)), "the layers have more than 4000000 entries"),
    (lambda: numbered(2_100_000), "the image has more than 2000000 files"),
], ids=["ten-million-times-one", "two-million-files"])
def test_a_layer_of_very_many_entries(tmp_path, parts, said):
    layer = tmp_path / "layer.tar.gz"
    with gzip.open(layer, "wb", compresslevel=1) as out:
        out.write(header("bin/sh"))
        for part in parts():
            out.write(part)
        out.write(bytes(1024))
    done = subprocess.run([BIN / "cubby-flatten", layer], capture_output=True, text=True, timeout=600)
    print(done.stderr)
    assert done.returncode == 1 and said in done.stderr and done.stdout == ""


def test_a_context_of_100_000_files(builder):
    folder = builder.context / "many"
    for i in range(100_000):
        if i % 1000 == 0:
            part = folder / str(i // 1000)
            part.mkdir(parents=True)
        (part / f"file-{i}").write_text(str(i))
    text = "FROM default\nCOPY many /many\nRUN find /many -type f | wc -l; cat /many/99/file-99999; exit 1\n"
    for cached in (False, True):
        begin = time.monotonic()
        status, events = builder.build(text)
        print(f"100,000 files, cached {cached}: {time.monotonic() - begin:.1f} s")
        assert status == 1 and output(events)[:2] == ["100000", "99999"], events[-3:]
        assert steps(events)["COPY many /many"] is cached


@pytest.mark.parametrize("command", ["f() { f | f & }; f; sleep 600", "while :; do sleep 600 & done",
                                     "head -c 20G /dev/zero | tail", "cat /dev/zero >/fills; sleep 600"],
                         ids=["bomb", "children", "memory", "disk"])
def test_a_step_that_takes_all_it_can(builder, command):
    """Its limit of time ends it, or its guest; the finished step before it stays."""
    text = f"FROM default\nRUN echo one >/one\nRUN {command}\n"
    message = builder.bad(text, "--step-timeout", "60")
    assert "line 3: RUN" in message, message
    print(message)
    again = builder.build("FROM default\nRUN echo one >/one\nRUN cat /one; exit 4\n")[1]
    assert list(steps(again).values()) == [True, True, False] and output(again) == ["one"]


class Small(Builder):
    """A home on a file system of its own, whose size can change."""

    def __init__(self, context, size):
        super().__init__(context)
        links = {name: os.readlink(self.path / "templates" / name) for name in os.listdir(self.path / "templates")}
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", self.path], check=True)
        (self.path / "templates").mkdir()
        for name, to in links.items():
            (self.path / "templates" / name).symlink_to(to)

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True)

    def close(self):
        self.stop_daemon()
        subprocess.run(["umount", "-l", self.path], check=True)
        super().close()


def test_a_host_without_space_in_the_middle(tmp_path):
    """With a little more space each time, the same build gets further. Each failure says so and leaves its layers only."""
    text = "FROM default\nRUN head -c 100M /dev/urandom >/one\nRUN head -c 150M /dev/urandom >/two\n"
    small = Small(tmp_path, "400m")
    said = []
    try:
        for size in [*range(400, 3600, 200), 6000]:
            small.resize(f"{size}m")
            status, events = small.build(text)
            if status == 0:
                break
            message = events[-1].get("message", "")
            said.append((size, message, list(steps(events).values())))
            print(size, message, steps(events), flush=True)
            assert status == 1 and any(word in message for word in ("space", "full", "free")), message
            assert os.listdir(small.path / "templates") == ["default"], os.listdir(small.path / "templates")
            assert small.listed() == [] and os.listdir(small.path / "build-work") == []
        assert status == 0 and len(said) >= 3, said
        small.resize("6000m")  # a sandbox needs room as well
        assert small.run("made", "stat -c %s /one /two") == f"{100 << 20}\n{150 << 20}\n"
        assert len({json.dumps(step) for _, _, step in said}) > 1, "it failed at several points"
    finally:
        small.close()


class OfImages(Small):
    """Builds templates of a small image, with as much room as a test says. The cache has the guest kernel's package."""

    def __init__(self, where):
        super().__init__(where, "1g")
        del self.env["CUBBY_RUNSC"]
        layout = Layout(where / "image")
        self.reference = layout.write([busybox_layer(shutil.which("busybox")), [file("blob", os.urandom(40 << 20))]], {"User": "root"})
        (self.path / "cache/apt").mkdir(parents=True)
        for package in (TEST_HOME / "cache/apt").glob("linux-image-*.deb"):
            shutil.copy(package, self.path / "cache/apt")
        self.used_mb = sum(p.stat().st_size for p in (self.path / "cache/apt").iterdir()) // 1_000_000

    def template(self, room_mb, *words):
        """The status and stderr of a build that has so much room."""
        self.resize(f"{self.used_mb + room_mb}m")
        done = subprocess.run([BIN / "cubby", "template", *words], env=self.env, capture_output=True, text=True, timeout=600)
        print(room_mb, done.returncode, done.stderr[-500:], flush=True)
        return done.returncode, done.stderr

    def image(self, room_mb, *words):
        return self.template(room_mb, "build", "of-image", "--from", self.reference, *words)

    def left(self):
        """What a build left, but for the log that it names."""
        return {p.name for p in self.path.iterdir()} - {"build-of-image.log", "jail", "cache", "build-work"}


@pytest.fixture
def images(tmp_path):
    home = OfImages(tmp_path)
    yield home
    home.close()


FULL = r"the host's disk is full: only \d+ MB were free in {}/templates; make room, or set CUBBY_HOME to a directory on a larger file system"


@pytest.mark.parametrize("room_mb, stage, more", [
    (20, "image", "pull oci:.*: skopeo failed"), (60, "image", "layer 2: write the archive"),
    (85, "disk image", "(mke2fs|fakeroot) failed"), (140, "kernel and initramfs", "dpkg-deb failed"),
    (185, "kernel and initramfs", "copy ")])
def test_a_tool_of_a_build_that_fills_the_disk(images, room_mb, stage, more):
    status, said = images.image(room_mb)
    assert status == 1 and re.search(f"cubby: {stage}: {FULL.format(images.path)}: {more}", said), said
    assert os.listdir(images.path / "templates") == ["default"] and images.left() == {"templates"}


@pytest.mark.parametrize("where, more", [("/", "the guest's disk found no room"), ("/tmp", "")], ids=["disk", "memory"])
def test_a_guest_of_a_build_that_fills_the_disk(images, where, more):
    """Its disk and its memory are files of the host. There is room for one of them, as the guest caches what it writes.
    Without room for its memory, QEMU ends by SIGBUS."""
    fill = f"mount -t tmpfs none /tmp -o size=90%; dd if=/dev/zero of={where}/fill bs=1M count=400; exec sleep 600"
    room_mb, memory = (500, "256M") if more else (300, "512M")
    status, said = images.image(room_mb, "--minimal", "--memory", memory, "--start", fill, "--ready", "test -e /never")
    assert status == 1 and re.search(f"cubby: warm-up: the host's disk is full: only .*: {more}", said), said
    assert os.listdir(images.path / "templates") == ["default"] and images.left() == {"templates"}


@pytest.mark.skipif(not (BIN / "runsc").exists(), reason="needs runsc")
def test_a_part_for_gvisor_that_fills_the_disk(images):
    """mkfs.erofs fails. The template is whole without the part, which is added once there is room."""
    status, said = images.image(700)
    assert status == 0 and re.search(f"no files for gVisor, because {FULL.format(images.path)}: .*mkfs.erofs failed", said), said
    assert "when there is room: cubby template finish of-image" in said
    where = images.path / "templates/of-image"
    assert not (where / "gvisor").exists() and "gvisor" not in json.loads((where / "template.json").read_text())
    before = sorted(os.listdir(where))
    status, said = images.template(700, "finish", "of-image")
    assert status == 1 and re.search(f"cubby: .*{FULL.format(images.path)}: .*(mkfs.erofs|fakeroot) failed", said), said
    assert sorted(os.listdir(where)) == before and sorted(os.listdir(images.path / "templates")) == ["default", "of-image"]
    assert images.template(2000, "finish", "of-image")[0] == 0
    assert json.loads((where / "template.json").read_text())["gvisor"]
