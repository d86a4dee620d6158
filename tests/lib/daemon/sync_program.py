# SPDX-License-Identifier: Apache-2.0
"""cubby sync between two directories of this host, one of which is a sandbox's."""

import json
import os
import pathlib
import pwd
import subprocess

from fake_cubbyd import ID

CUBBY = pathlib.Path(os.environ["BIN"]) / "cubby"
ME = pwd.getpwuid(os.getuid()).pw_name
OLD = 1_600_000_000


def write(path, text, seconds=OLD):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (seconds, seconds))


def run(fake, host, guest, *words):
    done = subprocess.run([CUBBY, "sync", "--user", ME, *words, host, f"{ID}:{guest}"], env=fake.env,
                          capture_output=True, timeout=120)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def sync(fake, host, guest, *words):
    status, out, err = run(fake, host, guest, "--json", *words)
    assert status == 0, err
    return json.loads(out)


def tree(top):
    """The contents of all files, the targets of links, and None for directories."""
    return {str(path.relative_to(top)): os.readlink(path) if path.is_symlink() else
            None if path.is_dir() else path.read_text() for path in top.rglob("*")}


def settled(fake, host, guest):
    """Nothing is left to do, and both sides are the same."""
    answer = sync(fake, host, guest)
    assert (answer["files"], answer["links"], answer["deleted"], answer["conflicts"]) == (0, 0, 0, [])
    assert tree(host) == tree(guest)
