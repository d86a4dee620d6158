# SPDX-License-Identifier: Apache-2.0
"""cubby-mountd as the server of a volume: its limit, whatever several guests do at once, and what it does
not hide. In the jail as cubbyd starts it, and once without.
"""

import errno
import os
import threading

import pytest

from harness import wait_for
from jail_peer import WALLS
from mountd_peer import BY_HANDLE, Mountd, Room

OWNER = 1234
MB = 1 << 20
LIMIT = 8 * MB
REMOVED = ".cubby-removed"
EXCHANGE = 2


@pytest.fixture
def volume(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    os.chown(path, OWNER, OWNER)
    return path


@pytest.fixture
def room():
    made = Room(LIMIT)
    yield made
    os.close(made.fd)


@pytest.fixture(params=["jail", "no jail"])
def serve(request, volume, room):
    """Start servers of the volume; ends them."""
    servers = []

    def start(**more):
        servers.append(Mountd(volume, walls=WALLS if request.param == "jail" else (), room=room, **more))
        return servers[-1]

    yield start
    for server in servers:
        server.__exit__()


def create(server, path, handle, size=0, flags=os.O_RDWR):
    """The errno of a create, or of the first write that fails."""
    failed = server.error("create", path, handle=handle, flags=flags, mode=0o644)
    for at in range(0, 0 if failed else size, MB):
        failed = failed or server.error("write", b"", b"x" * min(MB, size - at), handle=handle, offset=at)
    return failed


def taken(volume):
    """What the volume takes up on the disk, with the files in use."""
    return sum(max(os.lstat(os.path.join(where, name)).st_blocks * 512, 4096)
               for where, _, names in os.walk(volume) for name in names)


# ---- the limit
def test_a_write_that_does_not_fit(serve, volume, room):
    server = serve()
    assert create(server, b"a", 1, 6 * MB) == 0
    assert server.error("write", b"", b"x" * MB, handle=1, offset=6 * MB) == 0
    assert server.error("write", b"", b"x" * MB, handle=1, offset=7 * MB) == errno.ENOSPC
    assert server.error("write", b"", b"y" * MB, handle=1, offset=0) == 0, "it has this room already"
    assert server.error("change", b"", handle=1, how=BY_HANDLE, mask=2, size=MB) == 0
    assert create(server, b"b", 2, 6 * MB) == 0
    assert server.error("unlink", b"a") == 0 and server.error("unlink", b"b") == 0
    for handle in (1, 2):
        server.send("release", handle=handle)
    assert create(server, b"c", 3, 7 * MB) == 0 and taken(volume) <= LIMIT


@pytest.mark.parametrize("size, mode, failed", [(9 * MB, 0, errno.ENOSPC), (1 << 62, 0, errno.ENOSPC),
                                                (MB, 1, errno.EOPNOTSUPP), (MB, 0, 0)])
def test_allocation(serve, volume, size, mode, failed):
    """Mode 1 is FALLOC_FL_KEEP_SIZE."""
    server = serve()
    assert create(server, b"a", 1) == 0
    assert server.error("allocate", handle=1, size=size, mode=mode) == failed
    assert taken(volume) <= LIMIT


def test_a_directory_that_was_removed_while_it_is_open(serve):
    server = serve()
    assert server.error("mkdir", b"d", mode=0o755) == 0 and server.error("opendir", b"d", handle=1) == 0
    assert server.error("rmdir", b"d") == 0
    assert server.error("allocate", handle=1, size=MB) in (errno.EBADF, errno.EISDIR, errno.ENODEV)
    assert server.error("write", b"", b"x", handle=1) == errno.EINVAL
    assert create(server, b"a", 2) == 0, "it still serves"


def test_many_empty_files(serve, volume):
    server = serve()
    results = [create(server, b"%d" % i, 1) for i in range(LIMIT // 4096 + 10)]
    # Their directory has grown, and counts, too.
    assert LIMIT // 4096 - 64 <= results.count(0) <= LIMIT // 4096 and set(results) == {0, errno.ENOSPC}
    assert server.error("mkdir", b"d", mode=0o755) == errno.ENOSPC
    assert server.error("symlink", b"l", b"target") == errno.ENOSPC
    assert server.error("link", b"0", b"again") == errno.ENOSPC
    for i in range(16):
        assert server.error("unlink", b"%d" % (i + 1)) == 0
    server.send("release", handle=1)
    assert server.error("rename", b"0", b"again") == 0


def test_a_directory_counts_what_it_takes_up(serve, volume, room):
    """On ext4 a directory grows with its names, and does not shrink when they go."""
    server = serve()
    assert server.error("mkdir", b"d", mode=0o755) == 0
    names = [b"%03d" % i + b"x" * 240 for i in range(300)]
    for name in names:
        assert create(server, b"d/" + name, 1) == 0
    server.send("release", handle=1)
    for name in names:
        assert server.error("rename", b"d/" + name, name) == 0
    for name in names:
        assert server.error("unlink", name) == 0
    grown = max(os.stat(volume / "d").st_blocks * 512, 4096) + max(os.stat(volume).st_blocks * 512 - 4096, 0)
    assert room.used() == grown, "the directory, and what the volume's own has grown"
    assert server.error("rmdir", b"d") == 0 and room.used() == max(os.stat(volume).st_blocks * 512 - 4096, 0)


def test_a_second_name_costs_as_much(serve):
    server = serve()
    assert create(server, b"a", 1, 5 * MB) == 0
    assert server.error("link", b"a", b"b") == errno.ENOSPC
    assert server.error("change", b"", handle=1, how=BY_HANDLE, mask=2, size=3 * MB) == 0
    assert server.error("link", b"a", b"b") == 0
    assert server.error("write", b"", b"x" * MB, handle=1, offset=3 * MB) == errno.ENOSPC, "it counts twice"
    assert server.error("unlink", b"a") == 0
    assert server.error("write", b"", b"x" * MB, handle=1, offset=3 * MB) == 0


def test_a_file_that_is_renamed_counts_once(serve, volume, room):
    """Most programs write a file under a temporary name, and rename it."""
    server = serve()
    assert create(server, b"a.tmp", 1, 3 * MB) == 0
    server.send("release", handle=1)
    used = room.used()
    assert server.error("rename", b"a.tmp", b"a") == 0 and room.used() == used
    assert create(server, b"b.tmp", 1, 3 * MB) == 0 and room.used() > used
    server.send("release", handle=1)
    assert server.error("rename", b"b.tmp", b"a") == 0 and room.used() == used, "the replaced file is gone"
    assert create(server, b"c", 1, MB) == 0
    both = room.used()
    assert server.error("rename", b"c", b"a", flags=EXCHANGE) == 0 and room.used() == both


def test_files_that_are_removed_while_they_are_open(serve, volume):
    """They have no name that the guest sees, but take up room until the last guest closes them."""
    one, two = serve(), serve()
    assert create(one, b"a", 1, 5 * MB) == 0 and two.error("open", b"a", handle=1) == 0
    assert one.error("unlink", b"a") == 0
    one.send("release", handle=1)
    assert one.error("stat", b"a") == errno.ENOENT
    assert two.ask("read", handle=1, size=4) == (0, b"xxxx")
    assert create(one, b"b", 2, 5 * MB) == errno.ENOSPC
    assert taken(volume) <= LIMIT
    two.send("release", handle=1)
    assert two.error("stat", b"b") == 0, "the release was served"
    # Others saw the count a moment ago, so they may believe it for some seconds.
    wait_for(lambda: one.error("write", b"", b"x" * MB, handle=2, offset=5 * MB) == 0, 60, "the room is free again")
    assert REMOVED not in os.listdir(volume) and taken(volume) <= LIMIT


def test_a_file_that_another_replaces_while_it_is_open(serve, volume):
    one, two = serve(), serve()
    assert create(one, b"a", 1, 3 * MB) == 0 and two.error("open", b"a", handle=1) == 0
    assert create(one, b"b", 2, 3 * MB) == 0
    assert one.error("rename", b"b", b"a") == 0
    assert two.ask("read", handle=1, size=2) == (0, b"xx")
    assert create(one, b"c", 3, 3 * MB) == errno.ENOSPC and taken(volume) <= LIMIT


def test_a_server_that_is_killed_keeps_no_room(serve, volume):
    one, two = serve(), serve()
    assert create(one, b"a", 1, 5 * MB) == 0 and one.error("unlink", b"a") == 0
    one.socket.close()
    one.server.kill()
    one.server.wait()
    wait_for(lambda: create(two, b"b", 1, 6 * MB) == 0, 60, "its file is gone")
    assert os.listdir(volume) == ["b"]


def test_many_guests_at_once(serve, volume):
    """Each writes until it is refused; together they stay within the limit. One file is written by all."""
    servers = [serve() for _ in range(4)]
    assert create(servers[0], b"shared", 9) == 0
    results = [[] for _ in servers]

    def fill(i):
        server = servers[i]
        results[i].append(create(server, b"own%d" % i, 1))
        results[i].append(server.error("open", b"shared", handle=2, flags=os.O_RDWR))
        for at in range(40):
            results[i].append(server.error("write", b"", b"%d" % i * 65536, handle=1, offset=at * 65536))
            results[i].append(server.error("write", b"", b"%d" % i * 65536, handle=2, offset=(at * 4 + i) * 65536))

    threads = [threading.Thread(target=fill, args=(i,)) for i in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {one for all_ in results for one in all_} == {0, errno.ENOSPC}
    assert LIMIT - 3 * MB < taken(volume) <= LIMIT
    with open(volume / "shared", "rb") as file:
        data = file.read()
    for at in range(0, len(data), 65536):
        assert len(set(data[at:at + 65536])) == 1, "a write is whole"


def test_the_size_of_its_file_system(serve):
    server = serve()
    assert create(server, b"a", 1, 2 * MB) == 0
    failed, data = server.ask("statfs")
    block, blocks, _, available = (int.from_bytes(data[i:i + 8], "little") for i in (0, 8, 16, 24))
    assert failed == 0 and block * blocks == LIMIT and LIMIT - 3 * MB < block * available <= LIMIT - 2 * MB


# ---- what a guest may do
def test_nothing_of_a_project_is_hidden(serve, volume):
    server = serve()
    for name in (b".env", b".cubbyignore", b"HEAD"):
        assert create(server, name, 1) == 0
    assert server.error("mkdir", b".git", mode=0o755) == 0 and create(server, b".git/config", 1) == 0
    assert server.error("rename", b".git", b"x") == 0
    assert sorted(os.listdir(volume)) == [".cubbyignore", ".env", "HEAD", "x"]


def test_what_was_removed_stays_unseen(serve, volume):
    server = serve()
    assert create(server, b"a", 1) == 0 and server.error("unlink", b"a") == 0
    name = os.fsencode(os.listdir(volume / REMOVED)[0])
    for path in (REMOVED.encode(), REMOVED.encode() + b"/" + name):
        assert server.error("stat", path) == errno.ENOENT
        assert server.error("open", path, handle=2) == errno.ENOENT
        assert server.error("unlink", path) == errno.ENOENT
        assert create(server, path, 2) == errno.EACCES
    assert server.error("mkdir", b"d", mode=0o755) == 0
    assert server.error("rename", b"d", REMOVED.encode()) == errno.EACCES
    assert REMOVED.encode() not in server.ask("list", b"")[1]


def test_the_daemon_can_use_and_remove_each_file(serve, volume):
    server = serve()
    assert server.error("mkdir", b"d", mode=0) == 0
    assert server.error("create", b"d/a", handle=1, flags=os.O_RDWR, mode=0) == 0
    assert server.error("change", b"d", mask=1, mode=0o111) == 0 and server.error("change", b"d/a", mask=1, mode=0o4755) == 0
    assert server.error("change", b"", handle=1, how=BY_HANDLE, mask=1, mode=0o044) == 0
    assert (volume / "d").stat().st_mode & 0o7777 == 0o711
    assert (volume / "d" / "a").stat().st_mode & 0o7777 == 0o644


def test_a_tree_is_never_too_deep(serve, volume):
    server = serve()
    deep = b"/".join([b"d"] * 60)
    for i in range(60):
        for top in (b"", b"e/"):
            if top and not i:
                assert server.error("mkdir", b"e", mode=0o755) == 0
            assert server.error("mkdir", top + b"/".join([b"d"] * (i + 1)), mode=0o755) == 0
    assert server.error("rename", b"e", deep + b"/e") == errno.ENAMETOOLONG
    assert server.error("mkdir", deep + b"/x", mode=0o755) == 0
    assert server.error("rename", b"e/d/d", deep + b"/x", flags=EXCHANGE) == errno.ENAMETOOLONG
    assert server.error("rename", b"e", b"f") == 0
    for i in range(61, 100):
        assert server.error("mkdir", b"/".join([b"d"] * i), mode=0o755) == 0
    assert server.error("mkdir", b"/".join([b"d"] * 100), mode=0o755) == 0
    assert server.error("mkdir", b"/".join([b"d"] * 101), mode=0o755) == errno.ENAMETOOLONG


def test_links_and_devices(serve, volume, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (volume / "out").symlink_to("../secret")
    (volume / "up").symlink_to("..")
    os.mkfifo(volume / "pipe")
    os.mknod(volume / "null", 0o20666, os.makedev(1, 3))
    server = serve()
    assert server.error("open", b"out", handle=1) == errno.ELOOP
    assert server.error("open", b"up/secret", handle=1) in (errno.ELOOP, errno.ENOTDIR)
    for path in (b"..", b"../secret", b"d/../../secret", b"/etc/passwd"):
        assert server.error("stat", path) == errno.EINVAL
    for path in (b"pipe", b"null"):
        assert server.error("open", path, handle=1, flags=os.O_RDWR) == errno.EACCES
        assert server.error("unlink", path) == 0
    assert server.error("unlink", b"out") == 0 and (tmp_path / "secret").exists()
