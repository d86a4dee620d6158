# SPDX-License-Identifier: Apache-2.0
"""Writes OCI image layouts (OCI image-spec), whose layers a test names file by file.

A layer is a list of entries, which `file`, `folder`, `link` and the others make; or the bytes of a tar archive.
"""
import gzip
import hashlib
import io
import json
import pathlib
import tarfile

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"


def _entry(name, kind, mode=0o644, **more):
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, mode
    for key, value in more.items():
        setattr(info, key, value)
    return info


def file(name, data="", mode=0o644, uid=0, gid=0, **more):
    data = data.encode() if isinstance(data, str) else data
    return _entry(name, tarfile.REGTYPE, mode, size=len(data), uid=uid, gid=gid, **more), data


def folder(name, mode=0o755, uid=0, gid=0):
    return _entry(name, tarfile.DIRTYPE, mode, uid=uid, gid=gid), b""


def link(name, target):
    return _entry(name, tarfile.SYMTYPE, 0o777, linkname=target), b""


def hard_link(name, target):
    return _entry(name, tarfile.LNKTYPE, linkname=target), b""


def device(name):
    return _entry(name, tarfile.CHRTYPE, 0o666, devmajor=1, devminor=3), b""


def fifo(name):
    return _entry(name, tarfile.FIFOTYPE), b""


def layer(entries):
    """The bytes of a tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Layout:
    """An image as a directory: `oci:DIR` in skopeo's words."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        (self.path / "blobs/sha256").mkdir(parents=True, exist_ok=True)
        (self.path / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def blob(self, data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        (self.path / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}

    def write(self, layers, config=None, architecture="amd64"):
        """Write the image; return its reference. layers: lists of entries, bytes, or paths of tar files."""
        archives = [self._archive(one) for one in layers]
        blobs = [self.blob(gzip.compress(data, 1, mtime=0), LAYER_TYPE) for data in archives]
        conf = self.blob(json.dumps({
            "architecture": architecture, "os": "linux", "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in archives]},
        }).encode(), CONFIG_TYPE)
        manifest = self.blob(json.dumps({"schemaVersion": 2, "mediaType": MANIFEST_TYPE, "config": conf,
                                         "layers": blobs}).encode(), MANIFEST_TYPE)
        manifest["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
        (self.path / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))
        return f"oci:{self.path}:latest"

    @staticmethod
    def _archive(one):
        if isinstance(one, bytes):
            return one
        return pathlib.Path(one).read_bytes() if isinstance(one, (str, pathlib.Path)) else layer(one)


def busybox_layer(busybox):
    """A small system whose only program is busybox: musl's and glibc's small images look like this."""
    names = ("sh ls cat echo env id pwd uname date mkdir rm cp mv ln head tail sed sort wc find grep tar gzip ps df du "
             "sync sleep true false test chmod chown touch kill printf nohup setsid mkfifo stat readlink tr awk").split()
    return [folder("bin"), folder("etc"), folder("tmp", 0o1777), folder("root", 0o700),
            file("bin/busybox", pathlib.Path(busybox).read_bytes(), 0o755),
            *(hard_link(f"bin/{name}", "bin/busybox") if name == "sh" else link(f"bin/{name}", "busybox") for name in names),
            file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/app:/bin/sh\n"),
            file("etc/group", "root:x:0:\napp:x:1000:\n"),
            file("etc/os-release", 'ID=small\nPRETTY_NAME="Small"\n')]
