# SPDX-License-Identifier: Apache-2.0
"""A registry of images on the loopback: Debian's docker-registry, without TLS."""
import base64
import hashlib
import os
import socket
import subprocess
import urllib.request

from harness import wait_for

CONFIG = """version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}/data}}}}
http: {{addr: 127.0.0.1:{port}}}
{auth}
"""
AUTH = "auth: {{htpasswd: {{realm: test, path: {file}}}}}"


class Registry:
    """Starts with the object. htpasswd: the lines of a file of users, which makes the registry private."""

    def __init__(self, folder, htpasswd=None):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.name = f"127.0.0.1:{self.port}"
        users = folder / "htpasswd"
        if htpasswd:
            users.write_text(htpasswd)
        config = folder / "registry.yml"
        config.write_text(CONFIG.format(folder=folder, port=self.port, auth=AUTH.format(file=users) if htpasswd else ""))
        self.process = subprocess.Popen(["docker-registry", "serve", config], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_for(self._answers, what="the registry")

    def _answers(self):
        try:
            urllib.request.urlopen(f"http://{self.name}/v2/", timeout=5)
        except urllib.error.HTTPError as e:
            return e.code == 401
        except OSError:
            return False
        return True

    def push(self, reference, name, credentials=None):
        words = ["--dest-creds", credentials] if credentials else []
        subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", *words, reference,
                        f"docker://{self.name}/{name}"], check=True, timeout=60)
        return f"{self.name}/{name}"

    def close(self):
        self.process.terminate()
        self.process.wait(10)


def login_file(path, registry, user, password):
    """A file of credentials, as `skopeo login --authfile` writes it."""
    secret = base64.b64encode(f"{user}:{password}".encode()).decode()
    path.write_text(f'{{"auths": {{"{registry}": {{"auth": "{secret}"}}}}}}')
    os.chmod(path, 0o600)
    return path


def damage(layout, digest):
    """Change one byte of a blob."""
    path = layout / "blobs/sha256" / digest.removeprefix("sha256:")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert hashlib.sha256(data).hexdigest() != path.name
