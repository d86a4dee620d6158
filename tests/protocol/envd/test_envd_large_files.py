# SPDX-License-Identifier: Apache-2.0
"""Files of megabytes, most of which envd moves without the page cache, in blocks of 1 MiB."""

import os
import pathlib
import subprocess
import tempfile

import pytest

from envd_fixtures import envd  # noqa: F401
from envd_peer import IS_ROOT, error
from receive import receive

MB = 1 << 20
NOISE = os.urandom(5 * MB)
BLOCKS = 4  # blocks of memory that envd has for this; later transfers do without


@pytest.fixture
def shm():
    """A directory on a file system without a disk, which may not support direct I/O."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="envd-test-") as path:
        yield pathlib.Path(path)


def rss_bound(envd):
    if not os.environ.get("SAN"):
        assert envd.peak_kb() < 12 << 10, "memory does not grow with the files"


def pieces(data, size):
    return (data[i:i + size] for i in range(0, len(data), size))


@pytest.mark.parametrize("size", [MB - 1, MB, MB + 1, 2 * MB - 1, 2 * MB, 2 * MB + 1, 3 * MB + 4095])
def test_sizes_around_a_block(envd, tmp_path, size):
    data = NOISE[:size]
    for send in (data, pieces(data, 70001)):
        assert envd.write(tmp_path / "f", send)[0] == 200
        assert (tmp_path / "f").read_bytes() == data
    assert envd.upload((f"{tmp_path}/g", data), (f"{tmp_path}/h", data[::-1]))[0] == 200
    assert (tmp_path / "g").read_bytes() == data and (tmp_path / "h").read_bytes() == data[::-1]
    status, headers, body = envd.read(tmp_path / "f")
    assert (status, headers["content-length"]) == (200, str(size)) and body == data


@pytest.mark.parametrize("first,last", [(0, 2 * MB), (1, 2 * MB), (4095, 4 * MB), (4097, 5 * MB - 1),
                                        (3 * MB - 5, 5 * MB - 1), (512, MB + 511)])
def test_ranges_that_begin_anywhere(envd, tmp_path, first, last):
    (tmp_path / "f").write_bytes(NOISE)  # dirty in the page cache: read as it is all the same
    status, headers, body = envd.read(tmp_path / "f", {"Range": f"bytes={first}-{last}"})
    assert (status, headers["content-range"]) == (206, f"bytes {first}-{last}/{5 * MB}")
    assert body == NOISE[first:last + 1]


def test_a_change_is_seen_at_once(envd, tmp_path):
    for turn in range(4):
        data = bytes([turn]) + NOISE[turn:3 * MB]
        assert envd.write(tmp_path / "f", data)[0] == 200
        assert (tmp_path / "f").read_bytes() == data
        with open(tmp_path / "f", "r+b") as f:
            f.seek(2 * MB - 3)
            f.write(b"changed")
        assert envd.read(tmp_path / "f")[2] == data[:2 * MB - 3] + b"changed" + data[2 * MB + 4:]


def test_a_file_system_without_a_disk(envd, shm):
    assert envd.write(shm / "f", NOISE)[0] == 200
    assert (shm / "f").read_bytes() == NOISE
    assert envd.read(shm / "f")[2] == NOISE
    assert envd.read(shm / "f", {"Range": "bytes=7-2000000"})[2] == NOISE[7:2000001]


def begin_upload(envd, path):
    s = envd.connect()
    s.sendall(f"POST {envd.files(str(path))} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(NOISE)}\r\n"
              "Content-Type: application/octet-stream\r\n\r\n".encode())
    return s


def test_more_at_once_than_there_are_blocks(envd, tmp_path):
    places = [tmp_path / str(i) for i in range(2 * BLOCKS)]
    uploads = [begin_upload(envd, path) for path in places]
    for piece in pieces(NOISE, 700001):
        for s in uploads:
            s.sendall(piece)
    for s in uploads:
        assert receive(s, 12) == b"HTTP/1.1 200"
    assert all(path.read_bytes() == NOISE for path in places)
    downloads = [envd.connect() for _ in places]
    for s, path in zip(downloads, places):
        s.sendall(f"GET {envd.files(str(path))} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    for s in downloads:
        answer = b""
        while data := s.recv(MB):
            answer += data
        assert answer.partition(b"\r\n\r\n")[2] == NOISE
    rss_bound(envd)


def test_blocks_of_those_who_left_are_free_again(envd, tmp_path):
    def mapped():
        maps = pathlib.Path(f"/proc/{envd.process.pid}/maps").read_text()
        return sum(int(b, 16) - int(a, 16) for a, b in (m.split()[0].split("-") for m in maps.splitlines()))

    assert envd.write(tmp_path / "f", NOISE)[0] == 200
    before = mapped()
    for _ in range(2 * BLOCKS):
        with begin_upload(envd, tmp_path / "left") as s:
            s.sendall(NOISE[:3 * MB])
        with envd.connect() as s:
            s.sendall(f"GET {envd.files(str(tmp_path / 'f'))} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            s.recv(1000)
    assert envd.write(tmp_path / "f", NOISE)[0] == 200
    assert envd.read(tmp_path / "f")[2] == NOISE
    if not os.environ.get("SAN"):
        assert mapped() - before < MB * BLOCKS


@pytest.mark.skipif(not IS_ROOT, reason="only root can mount a small disk")
def test_full_disk(envd, tmp_path):
    image, disk = tmp_path / "image", tmp_path / "disk"
    disk.mkdir()
    with open(image, "wb") as f:
        f.truncate(8 * MB)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop", image, disk], check=False).returncode:
        pytest.skip("no loop device to mount a small disk")
    try:
        (disk / "f").write_text("old")
        was = sorted(os.listdir(disk))
        for send in (NOISE * 3, pieces(NOISE * 3, 65536)):
            status, message = error(envd.write(disk / "f", send))
            assert status == 507 and "No space left" in message
        assert sorted(os.listdir(disk)) == was and (disk / "f").read_text() == "old"
        assert envd.write(disk / "f", NOISE[:2 * MB + 1])[0] == 200
        assert (disk / "f").read_bytes() == NOISE[:2 * MB + 1]
    finally:
        subprocess.run(["umount", disk], check=True)
