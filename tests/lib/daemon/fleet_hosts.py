# SPDX-License-Identifier: Apache-2.0
"""Two hosts for cubby fleet drain by ssh: network namespaces with a cable between them, and OpenSSH's own client and
server. The server is the one in the tests' template, because this host may have none."""

import os
import pwd
import subprocess

from cubbyd import wait_for
from fleet import CUBBY
from harness import TEST_HOME
from netd_guest import Namespace

A, B = "10.77.0.1", "10.77.0.2"
LIBRARY = "usr/lib/x86_64-linux-gnu/libwrap.so.0"


def sh(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)


def unpack_sshd(where):
    """The server and its one unusual library, from the disk of the template."""
    for path in "usr/sbin/sshd", LIBRARY + ".7.6":
        target = where / path.rpartition("/")[2]
        sh("debugfs", "-R", f"dump /{path} {target}", str(TEST_HOME / "templates/default/disk.ext4"))
        target.chmod(0o755)
    (where / "libwrap.so.0").symlink_to("libwrap.so.0.7.6")


class Hosts:
    """Host a, on which the command runs, and host b with a server that leads to node b's home."""

    def __init__(self, fleet, where):
        self.fleet, self.where = fleet, where
        self.a, self.b = Namespace(), Namespace()
        self.a.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.b.name)
        for host, address in (self.a, A), (self.b, B):
            host.ip("address", "add", f"{address}/24", "dev", "eth0")
            host.ip("link", "set", "eth0", "up")
        (where / "bin").mkdir()
        (where / "bin/cubby").symlink_to(CUBBY)
        (where / "root/.ssh").mkdir(parents=True, mode=0o700)
        for name in "host", "root/.ssh/id_ed25519":
            sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(where / name))
        self.trust()
        self.nodes = where / "nodes"
        self.nodes.write_text(f"a http://{A}:1 then=b\nb http://{B}:1\n")
        self.log = where / "sshd.log"
        self.start()

    def trust(self, key=None):
        key = key or (self.where / "host.pub").read_text()
        (self.where / "root/.ssh/known_hosts").write_text(f"{B} {key}")

    def start(self):
        unpack_sshd(self.where)
        config = self.where / "sshd_config"
        config.write_text(
            f"ListenAddress {B}\nHostKey {self.where}/host\nAuthorizedKeysFile {self.where}/root/.ssh/id_ed25519.pub\n"
            "PermitRootLogin yes\nStrictModes no\nPidFile none\n"
            f"SetEnv CUBBY_HOME={self.fleet.nodes['b'].home} PATH={self.where}/bin:/usr/bin:/bin\n")
        passwd = self.where / "passwd"  # with the user of the server's unprivileged part
        lines = [":".join(map(str, line)) for line in pwd.getpwall() if line.pw_name != "sshd"]
        passwd.write_text("\n".join(lines) + "\nsshd:x:65534:65534::/run/sshd:/usr/sbin/nologin\n")
        script = (f"mount --bind {passwd} /etc/passwd && mount -t tmpfs none /run && mkdir /run/sshd && "
                  f"exec {self.where}/sshd -D -e -f {config}")
        with open(self.log, "wb") as log:
            self.server = subprocess.Popen(
                ["ip", "netns", "exec", self.b.name, "unshare", "-m", "sh", "-c", script], stdout=log, stderr=log,
                stdin=subprocess.DEVNULL, env=os.environ | {"LD_LIBRARY_PATH": str(self.where)})
        wait_for(lambda: "Server listening" in self.log.read_text(), 30, "the server listens")

    def drain(self, status=0):
        """Returns {sandbox: what was said of it}. The home of root has the key and the known hosts."""
        script = f'mount --bind {self.where}/root {pwd.getpwuid(0).pw_dir} && exec "$@"'
        done = subprocess.run(["ip", "netns", "exec", self.a.name, "unshare", "-m", "sh", "-c", script, "sh", CUBBY, "fleet",
                               "drain", "a", self.nodes], env=self.fleet.nodes["a"].env, capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == status, (done.stdout, done.stderr, self.log.read_text())
        self.said = done.stderr
        return dict(line.split(" ", 1) for line in done.stdout.splitlines())

    def close(self):
        self.server.terminate()
        self.server.wait(30)
        self.a.close()
        self.b.close()
