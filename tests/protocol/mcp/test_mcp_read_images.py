# SPDX-License-Identifier: Apache-2.0
"""read_file: which files are sent as images. Model APIs refuse a whole conversation with a broken one."""

import base64

import pytest
from mcp_envd import fresh, real, sandbox, server, start  # noqa: F401
from mcp_schemas import checked

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
GIF = base64.b64decode("R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==")
WEBP = base64.b64decode("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
APP0 = b"\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00"
SCAN = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00\x7f\xff\x00\x12"
SMALL = b"\xff\xe1\x00\x08\xff\xd8\xff\xd9\xff\xd9"  # a thumbnail has an end of its own


def jpeg(height=1, width=1, end=b"\xff\xd9"):
    frame = b"\xff\xc0\x00\x0b\x08" + height.to_bytes(2, "big") + width.to_bytes(2, "big") + b"\x01\x01\x11\x00"
    return b"\xff\xd8" + APP0 + SMALL + b"\xff" + frame + SCAN + end


WHOLE = {"image/png": PNG, "image/gif": GIF, "image/webp": WEBP, "image/jpeg": jpeg()}
HEADS = {"image/png": 8, "image/gif": 6, "image/webp": 12, "image/jpeg": 3}


@pytest.fixture
def read(server, sandbox, tmp_path):  # noqa: F811
    def call(data):
        (tmp_path / "x").write_bytes(data)
        return checked(server, "read_file", sandbox_id=sandbox, path=f"{tmp_path}/x")
    return call


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("more", [b"", bytes(3)], ids=repr)
def test_a_whole_image(read, kind, more):
    o, _, blocks = read(WHOLE[kind] + more)
    assert o["shown"] and (o["mime_type"], blocks[1]["mimeType"]) == (kind, kind)
    assert base64.b64decode(blocks[1]["data"]) == WHOLE[kind] + more


@pytest.mark.parametrize("kind", WHOLE)
def test_a_part_of_an_image_is_binary(read, kind):
    """From the first bytes to all but the last: no part is shown as an image or as text."""
    whole = WHOLE[kind]
    for end in {HEADS[kind], HEADS[kind] + 6, len(whole) // 2, len(whole) - 1}:
        o, text, blocks = read(whole[:end])
        assert o["mime_type"] == "application/octet-stream" and "content" not in o and len(blocks) == 1, end
        assert o["first_bytes"] == whole[:min(end, 16)].hex() and "not text; it begins with" in text


def changed(data, at, *values):
    return data[:at] + bytes(values) + data[at + len(values):]


@pytest.mark.parametrize("data", [
    changed(PNG, 16, 0, 0, 0, 0), changed(PNG, 20, 0, 0, 0, 0), changed(PNG, 12, *b"IDAT"), changed(PNG, 33, 255),
    PNG[:33] + PNG[-12:], PNG[:8] + bytes(100), changed(GIF, 6, 0, 0), changed(GIF, 8, 0, 0), b"GIF89a" + bytes(100),
    changed(WEBP, 4, 255), changed(WEBP, 12, *b"JUNK"), changed(WEBP, 16, 255), b"RIFF\x10\0\0\0WEBP" + bytes(100),
    jpeg(height=0), jpeg(width=0), jpeg(end=b""), b"\xff\xd8" + APP0 + SCAN + b"\xff\xd9", b"\xff\xd8\xff\xe0" + bytes(100),
    b"\xff\xd8" + b"\xff" * 100], ids=lambda data: f"{data[:4].hex()}-{len(data)}")
def test_a_broken_image_is_binary(read, data):
    o, _, blocks = read(data)
    assert o["mime_type"] == "application/octet-stream" and len(blocks) == 1
