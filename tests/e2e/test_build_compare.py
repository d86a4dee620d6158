# SPDX-License-Identifier: Apache-2.0
"""The same Dockerfiles built by Cubby and by buildah must give the same files and variables.

buildah's base is an image made of busybox; Cubby's is the shared template. So only the directory
/t and the variables that a Dockerfile sets are compared. Both builds print them in their last RUN,
which then fails, so that no template is made.
"""

import pathlib
import shutil
import subprocess
import tarfile

import pytest

from test_build import Builder, output

APPLETS = ["cat", "chmod", "echo", "env", "find", "id", "ln", "ls", "mkdir", "mv", "printf", "pwd", "readlink",
           "rm", "sh", "sort", "stat", "touch", "tr"]
SHOW = ("RUN echo BEGIN; pwd; id -u; for f in $(find /t | sort); do stat -c '%a %u:%g %F %n' $f; "
        "if [ -L $f ]; then readlink $f; elif [ -f $f ]; then case $f in *.tgz) ;; *) cat $f;; esac; fi; done; "
        "env | sort | while read l; do case $l in X_*) echo \"$l\";; esac; done; echo END; exit 7\n")

CASES = {
    "files": """
        RUN mkdir -p /t/there
        COPY a.txt /t/
        COPY a.txt /t/renamed
        COPY a.txt /t/there
        COPY a.txt b.txt /t/many/
        COPY *.txt /t/glob/
        COPY [ab].tx? /t/class/
        COPY ["a.txt", "/t/with space.txt"]
        RUN mv "/t/with space.txt" /t/without
        """,
    "directories": """
        COPY dir /t/dir
        COPY dir/ /t/slash/
        COPY dir/sub /t/dir
        COPY . /t/all
        COPY dir/* /t/flat/
        COPY b.txt /t/deep/er/still
        """,
    "owners": """
        COPY --chown=1000:1000 a.txt /t/numbers
        COPY --chown=user:user dir /t/names
        COPY --chmod=0600 a.txt /t/mode
        WORKDIR /t
        USER user
        RUN id -un >/tmp/who
        USER root
        RUN cat /tmp/who >/t/who
        """,
    "variables": """
        ARG LATE=late
        ARG GIVEN=default
        ENV X_A=one X_B="two words" X_C=three\\ words X_D='$X_A'
        ENV X_E old  form  $X_A
        ENV X_F=${X_A} X_G="${X_MISSING:-$LATE}" X_H=${X_A:+set} X_I=${X_MISSING:+set}x X_J=\\$X_A
        ENV X_A=changed X_K=$X_A
        ENV X_L=$X_A X_M=$GIVEN X_N="a'b" X_O='a"b'
        WORKDIR /t/$X_A
        WORKDIR sub
        RUN echo $X_A $LATE ${GIVEN} >file
        """,
    "lines": """
        # a comment
        RUN mkdir /t && \\
            # a comment between
            echo one >/t/one && \\

            echo 'two # no comment' \\
              >/t/two
        run ["/bin/sh", "-c", "echo three >/t/three"]
        RUN echo back\\\\slash >/t/four
        SHELL ["/bin/sh", "-ec"]
        RUN false || echo five >/t/five
        """,
    "links": """
        COPY links /t/links
        COPY links/inside /t/followed
        RUN ln -s /t/links /t/linked
        """,
    "archive": """
        ADD packed.tgz /t/packed
        COPY packed.tgz /t/kept/
        RUN rm /t/kept/packed.tgz
        ADD a.txt /t/
        """,
    "ignored": """
        COPY ignored /t
        """,
}
STAGES = """
ARG BASE=default
FROM $BASE AS first
ARG BASE
RUN mkdir -p /out/d && echo $BASE >/out/d/f
FROM first AS second
RUN echo more >>/out/d/f
FROM default
COPY --from=second /out /t/second
COPY --from=0 /out/d/f /t/
COPY --from=first /out/d /t/d/
"""


def of_root(info):
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


class Buildah:
    def __init__(self, work):
        self.work = pathlib.Path(work)
        self.options = ["buildah", "--root", self.work / "storage", "--runroot", self.work / "run",
                        "--storage-driver", "vfs", "bud", "--isolation", "chroot"]
        root = self.work / "root"
        for folder in ("bin", "etc", "tmp", "home/user"):
            (root / folder).mkdir(parents=True)
        (root / "tmp").chmod(0o1777)
        shutil.copy(shutil.which("busybox"), root / "bin" / "busybox")
        for name in APPLETS:
            (root / "bin" / name).symlink_to("busybox")
        (root / "etc" / "passwd").write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
        (root / "etc" / "group").write_text("root:x:0:\nuser:x:1000:\n")
        with tarfile.open(self.work / "root.tar", "w") as tar:
            tar.add(root, ".", filter=of_root)
        (self.work / "Dockerfile").write_text("FROM scratch\nADD root.tar /\n")
        subprocess.run([*self.options, "-q", "-t", "default", self.work], check=True, timeout=120,
                       capture_output=True)

    def build(self, context, *words):
        done = subprocess.run([*self.options, *words, context], timeout=120, capture_output=True, text=True)
        assert "BEGIN" in done.stdout.splitlines(), done.stdout[-1500:] + done.stderr
        return done.stdout.splitlines()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory):
    return Buildah(tmp_path_factory.mktemp("buildah"))


@pytest.fixture
def builder(tmp_path):
    b = Builder(tmp_path)
    for name in ("a.txt", "b.txt", "dir/one", "dir/sub/two", "ignored/keep.md", "ignored/drop.md",
                 "ignored/deep/x.log", "ignored/deep/y"):
        b.write(f"content of {name}\n", name)
    (b.context / "dir" / "sub" / "two").chmod(0o755)
    (b.context / "links").mkdir()
    (b.context / "links" / "inside").symlink_to("../a.txt")
    (b.context / "links" / "outside").symlink_to("/etc/passwd")
    b.write("ignored/*.md\n!ignored/keep.md\n**/*.log\nDockerfile\n.dockerignore\n", ".dockerignore")
    with tarfile.open(b.context / "packed.tgz", "w:gz") as tar:
        for name in ("dir", "a.txt"):
            tar.add(b.context / name, f"in/{name}", filter=of_root)
    yield b
    b.close()


def shown(lines):
    at = lines.index("BEGIN")
    return lines[at:lines.index("END", at)]


def compare(builder, buildah, text, *words):
    status, events = builder.build(text, *words)
    assert status == 1 and "status 7" in events[-1]["message"], events[-3:]
    assert shown(output(events)) == shown(buildah.build(builder.context, *words))


@pytest.mark.parametrize("name", CASES)
def test_it_is_as_buildah(builder, buildah, name):
    steps = "".join(line[8:] + "\n" for line in CASES[name].strip("\n").split("\n"))
    compare(builder, buildah, "FROM default\n" + steps + SHOW, "--build-arg", "GIVEN=given")


def test_stages_are_as_buildah(builder, buildah):
    compare(builder, buildah, STAGES + SHOW)
