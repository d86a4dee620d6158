# SPDX-License-Identifier: Apache-2.0
"""cubby-flatten: the layers of an image, good and hostile, become one archive."""
import gzip
import hashlib
import io
import subprocess
import tarfile

import pytest
from harness import BIN
from oci_image import device, fifo, file, folder, hard_link, layer, link

SHELL = [folder("bin"), file("bin/sh", "#!", 0o755), folder("etc"), file("etc/passwd", "root:x:0:0:root:/root:/bin/sh")]


class Flattener:
    def __init__(self, folder_):
        self.folder = folder_

    def run(self, *layers, options=()):
        paths = []
        for i, one in enumerate(layers):
            paths.append(self.folder / f"{i}.tar")
            paths[-1].write_bytes(one if isinstance(one, bytes) else layer(one))
        return subprocess.run([BIN / "cubby-flatten", *options, *paths], capture_output=True, timeout=60)

    def tree(self, *layers, options=()):
        """{name: TarInfo}, and a function that reads a file."""
        done = self.run(*layers, options=options)
        assert done.returncode == 0, done.stderr
        archive = tarfile.open(fileobj=io.BytesIO(done.stdout))
        members = {info.name.removeprefix("./"): info for info in archive}
        return members, lambda name: archive.extractfile(members[name]).read().decode()

    def refusal(self, *layers, options=()):
        done = self.run(*layers, options=options)
        assert done.returncode == 1, done.stdout[:200]
        return done.stderr.decode()


@pytest.fixture
def flat(tmp_path):
    return Flattener(tmp_path)


def test_later_layers_win(flat):
    tree, read = flat.tree(SHELL, [file("a/b", "old", 0o600)], [file("a/b", "new", 0o640, 7, 8)])
    assert read("a/b") == "new"
    assert (tree["a/b"].mode, tree["a/b"].uid, tree["a/b"].gid) == (0o640, 7, 8)


def test_a_whiteout_removes_what_lower_layers_have(flat):
    tree, _ = flat.tree(SHELL, [file("a/b", "x"), file("a/c/d", "x"), file("a/e", "x")],
                        [file("a/.wh.b"), file("a/.wh.c"), file("a/f", "x")])
    assert sorted(name for name in tree if name.startswith("a/")) == ["a/e", "a/f"]


def test_a_whiteout_spares_its_own_layer(flat):
    tree, read = flat.tree(SHELL, [file("a/b", "old")], [file("a/b", "new"), file("a/.wh.b")])
    assert read("a/b") == "new"


def test_an_opaque_directory_hides_lower_layers(flat):
    tree, _ = flat.tree(SHELL, [file("a/b", "x"), file("a/c/d", "x")],
                        [file("a/c/new", "x"), file("a/.wh..wh..opq"), file("a/z", "x")])
    assert sorted(name for name in tree if name.startswith("a/")) == ["a/c", "a/c/new", "a/z"]


def test_links_stay_inside(flat):
    tree, read = flat.tree(SHELL, [folder("usr/lib"), link("lib", "usr/lib"), link("up", "../../../../usr")],
                           [file("lib/x", "through a link"), file("up/lib/y", "from the root")])
    assert read("usr/lib/x") == "through a link"
    assert read("usr/lib/y") == "from the root"
    assert tree["lib"].issym() and tree["up"].linkname == "../../../../usr"


def test_hard_links_are_one_file(flat):
    tree, read = flat.tree(SHELL, [file("a", "data"), hard_link("b", "a")], [hard_link("c", "b"), file(".wh.a")])
    assert "a" not in tree
    first, second = sorted((tree["b"], tree["c"]), key=lambda info: info.islnk())
    assert first.isreg() and second.islnk() and second.linkname == first.name
    assert read(first.name) == "data"


def test_modes_and_fifos_are_kept_and_devices_are_not(flat):
    tree, _ = flat.tree(SHELL, [file("su", "x", 0o4755), fifo("pipe"), device("null")])
    assert tree["su"].mode == 0o4755 and tree["pipe"].isfifo() and "null" not in tree


def test_of_duplicates_the_last_one_counts(flat):
    _, read = flat.tree(SHELL, [file("a", "1"), file("a", "2"), folder("a/b"), file("a/b/c", "3")])
    assert read("a/b/c") == "3"


def test_every_parent_comes_first_and_is_a_directory(flat):
    done = flat.run(SHELL, [file("x/y/z", "1"), link("x/l", "y")], [file("x/l/w", "2")])
    folders = {"."}
    for info in tarfile.open(fileobj=io.BytesIO(done.stdout)):
        name = info.name.removeprefix("./")
        assert "/" not in name or name.rpartition("/")[0] in folders, name
        if info.isdir():
            folders.add(name)


def test_attributes_of_programs_are_kept(flat):
    headers = {"SCHILY.xattr.user.note": "kept", "SCHILY.xattr.trusted.overlay.opaque": "y"}
    tree, _ = flat.tree(SHELL, [file("a", "x", pax_headers=headers)])
    kept = [key for key in tree["a"].pax_headers if key.startswith("SCHILY.xattr")]
    assert kept == ["SCHILY.xattr.user.note"]


def test_the_user_is_added(flat):
    tree, read = flat.tree(SHELL, [file("etc/passwd", "root:x:0:0::/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"),
                                   file("etc/group", "root:x:0:\napp:x:1000:\nother:x:1001:")])
    assert read("etc/passwd").endswith("user:x:1002:1002::/home/user:/bin/sh\n")
    assert read("etc/group").endswith("other:x:1001:\nuser:x:1002:\n")
    assert (tree["home/user"].uid, tree["home/user"].gid) == (1002, 1002)
    assert tree["tmp"].mode == 0o1777


def test_a_user_that_is_there_stays(flat):
    _, read = flat.tree(SHELL, [file("etc/passwd", "user:x:33:33::/srv:/bin/sh\n")])
    assert read("etc/passwd") == "user:x:33:33::/srv:/bin/sh\n"


def test_a_profile_starts_no_program(flat):
    _, read = flat.tree(SHELL, [file("etc/profile", 'if [ "$(id -u)" -eq 0 ]; then\nPATH=/a\nfi\n')])
    assert read("etc/profile") == 'if [ "${EUID:-$(id -u)}" -eq 0 ]; then\nPATH=/a\nfi\n'


def test_the_directory_of_commands_is_made(flat):
    tree, _ = flat.tree(SHELL, options=["--directory=/srv/app"])
    assert tree["srv/app"].isdir()


@pytest.mark.parametrize("entries, said", [
    ([file("../x")], "leaves the image"),
    ([file("a/../../x")], "leaves the image"),
    ([hard_link("x", "nowhere")], "hard link"),
    ([hard_link("x", "../../etc/hostname")], "hard link"),
    ([hard_link("x", "etc")], "hard link"),
    ([file("a/.wh.")], "whiteout"),
    ([file("a/.wh...")], "whiteout"),
    ([link("loop", "loop"), file("loop/x")], "symbolic links"),
    ([file("x" * 300)], "more than 255 bytes"),
    ([file("/".join(["d"] * 1500))], "nested deeper"),
    ([file("d/" * 2500 + "x")], "more than 4000 bytes"),
    ([file("root-is-a-file/..")], "leaves the image"),
])
def test_hostile_entries_are_refused(flat, entries, said):
    assert said in flat.refusal(SHELL, entries)


def test_an_image_without_a_shell_is_refused(flat):
    assert "has no shell (/bin/sh)" in flat.refusal([file("app", "x", 0o755)])


@pytest.mark.parametrize("shell", [b"", b"garbage", b"\x7fELF", b"\x7fELF" + bytes(14) + b"\x28\0"])
def test_a_shell_that_does_not_run_is_refused(flat, shell):
    """The last one is for 32-bit ARM. A link to a program is followed."""
    said = flat.refusal([folder("bin"), link("bin/sh", "box"), file("bin/box", shell, 0o755)])
    assert "/bin/sh does not run" in said


def test_the_shell_of_this_processor_runs(flat):
    head = open("/bin/sh", "rb").read(64)
    flat.tree([folder("bin"), link("bin/sh", "box"), file("bin/box", head, 0o755)])


def test_a_truncated_layer_is_refused(flat):
    whole = gzip.compress(layer([*SHELL, file("big", bytes(range(256)) * 4096)]))
    assert "layer 1" in flat.refusal(whole[:len(whole) // 2])


def test_bytes_that_are_no_archive_are_refused(flat):
    assert "layer 2" in flat.refusal(SHELL, b"this is no archive" * 100)


def test_a_bomb_is_refused(flat):
    bomb = gzip.compress(layer([file("zeros", bytes(64 << 20))]), 9)
    assert len(bomb) < 100000
    assert "larger --disk" in flat.refusal(SHELL, bomb, options=["--max-bytes=32M"])


def test_a_full_disk(flat):
    flat.run(SHELL)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BIN / "cubby-flatten", flat.folder / "0.tar"], stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and b"No space left" in done.stderr


def test_names_of_any_bytes(flat):
    name = "caf\udce9"
    done = flat.run(SHELL, [file(name, "x")])
    assert done.returncode == 0 and b"caf\xe9" in done.stdout


def test_a_disk_gives_the_same_files(flat, tmp_path):
    source = tmp_path / "source"
    (source / "a/b").mkdir(parents=True)
    (source / "a/file").write_text("data" * 5000)
    (source / "a/other").hardlink_to(source / "a/file")
    (source / "a/short").symlink_to("file")
    (source / "a/long").symlink_to("x" * 200)
    disk = tmp_path / "disk.ext4"
    with open(disk, "wb") as out:
        out.truncate(8 << 20)
    subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", source, disk], check=True)
    done = subprocess.run([BIN / "cubby-flatten", f"--disk={disk}"], capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    archive = tarfile.open(fileobj=io.BytesIO(done.stdout))
    members = {info.name: info for info in archive}
    assert "lost+found" not in members and members["a/b"].isdir()
    assert members["a/short"].linkname == "file" and members["a/long"].linkname == "x" * 200
    names = [name for name in ("a/file", "a/other") if members[name].isreg()]
    assert len(names) == 1 and archive.extractfile(members[names[0]]).read() == b"data" * 5000


def test_a_damaged_disk_is_refused(tmp_path):
    disk = tmp_path / "disk.ext4"
    disk.write_bytes(bytes(1024) + bytes(range(256)) * 400)
    done = subprocess.run([BIN / "cubby-flatten", f"--disk={disk}"], capture_output=True, timeout=60)
    assert done.returncode == 1 and b"damaged" in done.stderr


def disk_of(tmp_path, *links, **files):
    """An ext4 file system with files in it, as `bin__sh`."""
    source, disk = tmp_path / "source", tmp_path / "disk.ext4"
    for name, data in files.items():
        path = source / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755)
    for name, target in links:
        (source / name).symlink_to(target)
    with open(disk, "wb") as out:
        out.truncate(8 << 20)
    subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", source, disk], check=True)
    return disk


PASSWD = b"root:x:0:0::/:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\napp:x:5:5::/:/bin/sh\n"


@pytest.mark.parametrize("files, options, said", [
    ({"bin__sh": b"#!x", "etc__passwd": PASSWD}, [], None),
    ({"bin__sh": b"#!x", "etc__passwd": PASSWD}, ["--user=app"], None),
    ({"bin__sh": b"#!x", "etc__passwd": PASSWD}, ["--user=ghost"], 'no user "ghost"'),
    ({"bin__sh": b"#!x", "etc__passwd": b"root:x:0:0::/:/bin/sh\nuser2:x:1:1::/:\n"}, [], 'no user "user"'),
    ({"bin__sh": b"#!x"}, [], 'no user "user"'),
    ({"etc__passwd": PASSWD}, [], "has no shell (/bin/sh)"),
    ({"bin__sh": b"", "etc__passwd": PASSWD}, [], "/bin/sh does not run"),
])
def test_what_a_disk_needs(tmp_path, files, options, said):
    disk = disk_of(tmp_path, **files)
    done = subprocess.run([BIN / "cubby-flatten", f"--disk={disk}", "--check", *options], capture_output=True, timeout=60)
    assert done.stdout == b"" and done.returncode == (1 if said else 0), done
    assert (said or "") in done.stderr.decode()


def test_the_shell_of_a_disk_may_be_a_link(tmp_path):
    disk = disk_of(tmp_path, ("bin", "/usr/bin"), ("usr/bin/sh", "box"), usr__bin__box=b"#!x", etc__passwd=PASSWD)
    done = subprocess.run([BIN / "cubby-flatten", f"--disk={disk}", "--check"], capture_output=True, timeout=60)
    assert done.returncode == 0, done


# ---- what a guest needs, and what a configuration says
@pytest.mark.parametrize("name", ["dev", "proc", "sys", "run"])
def test_a_place_to_mount_must_be_a_directory(flat, name):
    assert f"/{name} is not a directory" in flat.refusal(SHELL, [link(name, "usr")])
    assert f"/{name} is not a directory" in flat.refusal(SHELL, [file(name, "x")])


@pytest.mark.parametrize("user, said", [
    ("root", None), ("user", None), ("4321", None), ("4321:7", None), ("root:staff", None), ("root:50", None),
    ("ghost", 'no user "ghost"'), ("ghost:staff", 'no user "ghost"'), ("root:ghosts", 'no group "ghosts"')])
def test_the_user_of_commands(flat, user, said):
    layers = [*SHELL, file("etc/group", "root:x:0:\nstaff:x:50:\n")]
    if said:
        assert said in flat.refusal(layers, options=[f"--user={user}"])
    else:
        flat.tree(layers, options=[f"--user={user}"])


@pytest.mark.parametrize("pack", [lambda data: data, gzip.compress])
def test_digests_of_what_layers_unpack_to(flat, pack):
    first, second = layer(SHELL), layer([file("a", "x" * 100000)])
    good = [hashlib.sha256(data).hexdigest() for data in (first, second)]
    _, read = flat.tree(pack(first), pack(second), options=["--diff-ids=" + ",".join(good)])
    assert read("a") == "x" * 100000
    flat.tree(pack(first), pack(second), options=[f"--diff-ids={good[0]}"])  # the second is the build's own
    for bad in ([good[0], good[0]], [good[1], good[1]], ["x", good[1]]):
        assert "another digest" in flat.refusal(pack(first), pack(second), options=["--diff-ids=" + ",".join(bad)])
    assert "another digest" in flat.refusal(pack(first), pack(second + bytes(512)), options=["--diff-ids=" + ",".join(good)])


def test_a_hashed_layer_that_is_cut_off(flat):
    data = gzip.compress(layer(SHELL))
    digest = hashlib.sha256(layer(SHELL)).hexdigest()
    said = flat.refusal(data[:len(data) // 2], options=[f"--diff-ids={digest}"])
    assert "damaged" in said or "another digest" in said
