# SPDX-License-Identifier: Apache-2.0
"""cubby template build -f: Dockerfiles, with real sandboxes.

The templates of these builds stand in a directory of the test's own; the base is the shared one.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile

import pytest

from harness import BIN, TEST_HOME, Home, Mcp, wait_for
from oci_image import Layout, busybox_layer

WHOLE_BUILDS_S = 1800  # of a test that makes whole templates, on a busy host without KVM
# A template without Python has no kernel to warm up, which takes a minute under TCG.
STEPS = "FROM default\nRUN rm /usr/bin/python3\nRUN echo one >/one\nRUN cat /one; echo two >/two\nRUN cat /two; echo {last}\n"


class Builder(Home):
    """A home with templates of its own, and a context."""

    def __init__(self, context):
        super().__init__()
        (self.path / "templates").unlink()
        (self.path / "templates").mkdir()
        (self.path / "templates" / "default").symlink_to(TEST_HOME / "templates" / "default")
        self.context = pathlib.Path(context)
        self.env["CUBBY_RUNSC"] = "/nowhere/runsc"  # the part for gVisor takes half a minute of each build

    def write(self, text, name="Dockerfile"):
        path = self.context / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def command(self, name, *words):
        return [BIN / "cubby", "template", "build", name, "-f", self.context / "Dockerfile",
                self.context, "--json", *words]

    def build(self, text, *words, name="made"):
        self.write(text)
        done = subprocess.run(self.command(name, *words), env=self.env, timeout=900,
                              capture_output=True, text=True)
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def good(self, text, *words, name="made"):
        status, events = self.build(text, *words, name=name)
        assert status == 0, events[-3:]
        assert events[-1]["event"] == "done"
        return events

    def bad(self, text, *words):
        """Return the message of a build that must fail."""
        status, events = self.build(text, *words)
        assert status == 1 and events[-1]["event"] == "error", events[-3:]
        assert not (self.path / "templates" / "made").exists()
        assert self.listed() == []
        return events[-1]["message"]

    def cubby(self, *words):
        done = subprocess.run([BIN / "cubby", *words], env=self.env, timeout=120,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def listed(self):
        return json.loads(self.cubby("ps", "--json"))

    def run(self, template, command):
        made = self.cubby("create", "--template", template, "--tier", "microvm").strip()
        try:
            return self.cubby("exec", made, "--", "sh", "-c", command)
        finally:
            self.cubby("kill", made)


@pytest.fixture
def builder(tmp_path):
    b = Builder(tmp_path)
    yield b
    b.close()


def steps(events):
    """{name: was it cached} of the steps."""
    return {e["name"]: e["cached"] for e in events if e["event"] == "step"}


def output(events):
    return [e["text"] for e in events if e["event"] == "log"]


# Counts the processes that begin in 5 s: one is sleep itself, and the guest kernel may begin some of its own. An init that
# tries again does so at least each second.
BEGUN = """begun() { while read -r key n; do [ "$key" != processes ] || return 0; done </proc/stat; }
begun; before=$n; sleep 5; begun; echo $((n - before))"""


def boots_without_python(builder, template):
    """A machine of another size boots, and init does not try again and again to start the Python kernel."""
    box = builder.cubby("create", "--template", template, "--tier", "microvm", "--memory", "640M").strip()
    assert int(builder.cubby("exec", box, "--", "sh", "-c", BEGUN)) < 5
    builder.cubby("kill", box)


@pytest.mark.timeout(WHOLE_BUILDS_S)
def test_steps_are_cached(builder):
    first = builder.good(STEPS.format(last="a"))
    assert first[0] == {"event": "start", "steps": 6}
    assert steps(first)["RUN echo one >/one"] is False
    assert "one" in output(first) and "a" in output(first)
    template = first[-1]["template"]
    assert template["name"] == "made" and template["memory_mb"] == 512
    facts = json.loads((builder.path / "templates/made/template.json").read_text())
    assert facts["python"] is False and "python_kernel" not in facts
    boots_without_python(builder, "made")
    assert builder.run("made", "cat /one /two; id -un; pwd") == "one\ntwo\nuser\n/home/user\n"
    assert builder.cubby("snapshot", "ls", "--json").strip() == "[]", "layers are hidden"

    unchanged = builder.good(STEPS.format(last="a"))
    assert steps(unchanged) == {}
    assert unchanged[-1]["template"]["created_at"] == template["created_at"]

    changed = builder.good(STEPS.format(last="b"))
    assert list(steps(changed).values()) == [True, True, True, True, False, False]
    assert "b" in output(changed) and "one" not in output(changed)
    assert changed[-1]["template"]["created_at"] > template["created_at"]


@pytest.mark.timeout(WHOLE_BUILDS_S)
def test_what_a_dockerfile_says(builder):
    del builder.env["CUBBY_RUNSC"]
    builder.env["CUBBY_TIER"] = "auto"
    builder.write("kept\n", "src/kept.txt")
    builder.write("left out\n", "src/secret.key")
    builder.write("*.md\n**/*.key\n", ".dockerignore")
    builder.write("read me\n", "README.md")
    (builder.context / "src" / "out").symlink_to("/etc/hostname")
    with tarfile.open(builder.context / "packed.tgz", "w:gz") as tar:
        tar.add(builder.context / "src" / "kept.txt", "in/side.txt")
    events = builder.good("""\
ARG BASE=default
FROM ${BASE} AS tools
RUN mkdir -p /out/bin && printf '#!/bin/sh\\necho tool $1\\n' >/out/bin/tool && chmod 755 /out/bin/tool

FROM default
ARG WHO=nobody
ENV GREETING="hello $WHO" PATH=/opt/bin:$PATH
LABEL org.example.name=made
COPY --from=tools /out/bin /opt/bin
WORKDIR /srv/app
RUN useradd --uid 4321 --create-home app
COPY --chown=app --chmod=0640 src ./src/
COPY . /all/
ADD packed.tgz /packed
COPY <<EOF <<'RAW' /notes/
$GREETING
EOF
$GREETING
RAW
SHELL ["/bin/bash", "-c"]
RUN <<EOF
set -e
[[ $0 == /bin/bash ]]
tool from-run >/ran
EOF
RUN ["/bin/sh", "-c", "echo exec form >>/ran; (sleep 1000 &)"]
RUN if pgrep -x sleep; then exit 1; fi
RUN mkdir "/tmp/a b" && echo tmp >"/tmp/a b/kept" && echo tmp >/var/tmp/.kept
USER app
CMD ["sleep", "5000"]
HEALTHCHECK CMD pgrep -x sleep
""", "--build-arg", "WHO=world")
    assert "RUN <<EOF" in steps(events)
    order = [e["index"] for e in events if e["event"] == "step"]
    assert order == sorted(order), "a stage that others copy from comes first"
    facts = json.loads((builder.path / "templates" / "made" / "template.json").read_text())
    assert facts["image"]["labels"] == {"org.example.name": "made"}
    assert "gvisor" in events[-1]["template"]["tiers"]
    assert facts["environment"]["user"] == "app" and facts["environment"]["directory"] == "/srv/app"
    got = builder.run("made", "pwd; echo $GREETING; tool x; cat /ran src/kept.txt /notes/EOF "
                      "/notes/RAW /packed/in/side.txt; stat -c '%a %U:%G' src/kept.txt; "
                      "readlink /all/src/out; find /all | sort; pgrep -xc sleep")
    assert got.splitlines() == [
        "/srv/app", "hello world", "tool x", "tool from-run", "exec form", "kept", "hello world",
        "$GREETING", "kept", "640 app:app", "/etc/hostname", "/all", "/all/.dockerignore",
        "/all/Dockerfile", "/all/packed.tgz", "/all/src", "/all/src/kept.txt", "/all/src/out", "1"]
    assert builder.run("made", "cat '/tmp/a b/kept'; ls -A /tmp /var/tmp").splitlines() == [
        "tmp", "/tmp:", "a b", "", "/var/tmp:", ".kept"], "what the warm-up made is gone, and nothing else"
    for tier in ("microvm", "gvisor"):
        assert python_in(builder, "made", tier) == "app 4321 /srv/app /home/app hello world\n"


PYTHON = ("import getpass, os\n"
          "print(getpass.getuser(), os.getuid(), os.getcwd(), os.path.expanduser('~'), os.environ['GREETING'])")


def python_in(builder, template, tier):
    """What a run of Python says of its user and directory; the first run in a sandbox, by the warm kernel."""
    box = builder.cubby("create", "--template", template, "--tier", tier).strip()
    mcp = Mcp(builder)
    try:
        mcp.initialize()
        return mcp.tool("run_python_code", sandbox_id=box, code_block=PYTHON)["stdout"]
    finally:
        mcp.close()
        builder.cubby("kill", box)


@pytest.mark.timeout(WHOLE_BUILDS_S)
def test_a_model_builds_a_template(builder):
    """By the tool build_template: the daemon runs the real builder, and a sandbox of the template has what it made."""
    mcp = Mcp(builder, "--allow-builds")
    try:
        mcp.initialize()
        call = mcp.start("tools/call", {"name": "build_template", "_meta": {"progressToken": 1}, "arguments": {
            "name": "made", "commands": ["echo by a model >note", "sudo rm /usr/bin/python3"],
            "start_command": "exec python3.11 -m http.server 8000", "ready_command": "curl -sf localhost:8000/note"}})
        built = mcp.tool_result(call, WHOLE_BUILDS_S)
        told = "".join(n["params"].get("message", "") for n in mcp.notifications)
        assert built["template"] == "made" and "[builder 1/2] RUN echo by a model >note" in told, told
        assert "made" in [t["template"] for t in mcp.tool("list_templates")["templates"]]
        box = mcp.tool("create_sandbox", template="made")["sandbox_id"]
        said = mcp.tool("run_command", sandbox_id=box, command="curl -s localhost:8000/note; ls /usr/bin/python3 || echo gone")["stdout"]
        assert said == "by a model\ngone\n"
        mcp.tool("kill_sandbox", sandbox_id=box)
    finally:
        mcp.close()


def test_what_is_refused(builder):
    assert "line 2: RUN echo; exit 7: the command ended with status 7" in builder.bad(
        "FROM default\nRUN echo; exit 7")
    assert "line 2: COPY: \"missing\" is not in the context" in builder.bad("FROM default\nCOPY missing /x")
    assert "outside the context" in builder.bad("FROM default\nCOPY ../x /x")
    assert "line 3: ONBUILD" in builder.bad("FROM default\nRUN echo ran\nONBUILD RUN x")
    assert "the image has no user ghost" in builder.bad("FROM default\nUSER ghost\nRUN true")
    assert "line 2: USER: the image has no user ghost" in builder.bad("FROM default\nUSER ghost")
    assert "line 2: COPY: --chmod=99" in builder.bad("FROM default\nCOPY --chmod=99 Dockerfile /x")
    assert "line 2: COPY: --chown=a:b:c" in builder.bad("FROM default\nCOPY --chown=a:b:c Dockerfile /x")
    assert os.listdir(builder.path / "build-work") == [], "no lock is left"
    assert "it ran longer than 2 s" in builder.bad("FROM default\nRUN sleep 60", "--step-timeout", "2")
    assert "a file cannot replace the directory /etc/Dockerfile" in builder.bad(
        "FROM default\nRUN mkdir /etc/Dockerfile\nCOPY Dockerfile /etc/")
    assert "there is no template \"none\"" in builder.bad("FROM template:none")
    for option, why in (("--from", "FROM names the base"), ("--pip", "a RUN step installs packages")):
        done = subprocess.run([*builder.command("made"), option, "x"], env=builder.env, capture_output=True, text=True)
        assert done.returncode == 2 and f"{option} does not go with -f or --plan" in done.stderr and why in done.stderr


def test_a_step_that_fills_its_disk(builder):
    message = builder.bad("FROM default\nRUN fallocate -l $(($(df -k --output=avail / | tail -n 1) - 65536))K /most && "
                          "dd if=/dev/zero of=/rest bs=1M count=100 2>&1 | grep 'No space left' && exit 9")
    assert "status 9" in message, message


def test_a_signal_ends_it_and_keeps_the_cache(builder):
    builder.write("FROM default\nRUN echo one >/one\nRUN sleep 1000\n")
    build = subprocess.Popen(builder.command("made"), env=builder.env, stdout=subprocess.PIPE, text=True)
    for line in build.stdout:
        if json.loads(line).get("name") == "RUN sleep 1000":
            break
    wait_for(lambda: len(builder.listed()) == 1, what="the sandbox of the build")
    build.send_signal(signal.SIGINT)
    rest = build.communicate(timeout=60)[0]
    assert build.returncode == 130 and json.loads(rest.splitlines()[-1])["event"] == "error"
    assert builder.listed() == []
    again = builder.build("FROM default\nRUN echo one >/one\nRUN cat /one; exit 4\n")[1]
    assert list(steps(again).values()) == [True, True, False]


def test_a_killed_build_is_swept(builder):
    builder.write("FROM default\nRUN echo one >/one\nRUN sleep 1000\n")
    build = subprocess.Popen(builder.command("made"), env=builder.env, stdout=subprocess.PIPE, text=True)
    for line in build.stdout:
        if json.loads(line).get("name") == "RUN sleep 1000":
            break
    (left,) = wait_for(builder.listed, what="the sandbox of the build")
    assert left["metadata"] == {"cubby.build": "made"}
    build.kill()
    build.wait()
    assert "status 4" in builder.bad("FROM default\nRUN echo one >/one\nRUN exit 4\n")
    assert left["sandboxID"] not in [s["sandboxID"] for s in builder.listed()]


def test_a_killed_daemon(builder):
    """The command has to run: one that has not been started yet is started by the next daemon."""
    builder.write("FROM default\nRUN echo one >/one\nRUN echo runs; sleep 1000\n")
    build = subprocess.Popen(builder.command("made"), env=builder.env, stdout=subprocess.PIPE, text=True)
    for line in build.stdout:
        if json.loads(line).get("text") == "runs":
            break
    os.kill(builder.daemon(), signal.SIGKILL)
    rest = build.communicate(timeout=120)[0]
    assert build.returncode == 1 and "line 3: RUN echo runs; sleep 1000" in json.loads(rest.splitlines()[-1])["message"]
    status, events = builder.build("FROM default\nRUN echo one >/one\nRUN exit 5\n")
    assert status == 1 and steps(events)["RUN echo one >/one"] is True


def test_two_builds_at_once(builder):
    """Two names share layers; one name is built by one process at a time."""
    builder.write("FROM default\nRUN echo one >/one\nRUN sleep 3; exit 6\n")
    builds = [subprocess.Popen(builder.command(name), env=builder.env, stdout=subprocess.PIPE, text=True)
              for name in ("left", "right", "left")]
    ends = [json.loads(b.communicate(timeout=120)[0].splitlines()[-1])["message"] for b in builds]
    assert sum("status 6" in end for end in ends) == 2, ends
    assert sum("is being built by another process" in end for end in ends) == 1, ends


def test_a_policy_of_its_own(builder):
    assert "status" in builder.bad("FROM default\nRUN curl -s -m 5 http://192.168.77.1/ || exit 8")


def test_a_large_context_and_odd_names(builder):
    folder = builder.context / "many"
    folder.mkdir()
    for i in range(2000):
        (folder / f"file-{i}").write_text(str(i))
    (folder / os.fsdecode(b"n\xe9 \xff")).write_text("odd")
    (folder / "quote ' \" $x\n").write_text("quoted")
    events = builder.build("FROM default\nCOPY many /many\nRUN ls /many | wc -l; cat /many/n*; "
                           "cat /many/quote*; exit 1\n")[1]
    assert output(events)[:2] == ["2003", "oddquoted"], output(events)


@pytest.mark.timeout(WHOLE_BUILDS_S)
def test_from_an_image(builder, tmp_path_factory):
    """An image becomes a hidden template; its variables, user and directory hold from the first step on."""
    layout = Layout(tmp_path_factory.mktemp("image"))
    image = layout.write([busybox_layer(shutil.which("busybox"))],
                         {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "WorkingDir": "/srv", "User": "app"})
    builder.write("copied\n", "file")
    text = (f"FROM {image}\nRUN echo $FROM_IMAGE $PATH; pwd; id -un\nUSER root\nCOPY --chown=app file /new/\n"
            "RUN cat /new/file; stat -c %U:%G /new/file; exit 3\n")
    for cached in (False, True):
        status, events = builder.build(text)
        assert status == 1 and "status 3" in events[-1]["message"], events[-3:]
        assert output(events)[-2:] == ["copied", "app:app"]
        assert steps(events)[f"FROM {image}"] is True, "it is there when the first step begins"
    assert output(events) == ["copied", "app:app"], "only the last step ran again"
    listed = json.loads(builder.cubby("template", "ls", "--json"))
    assert [t["name"] for t in listed] == ["default"], "the template of the image is hidden"


def test_a_plan(builder, tmp_path):
    archive = tmp_path / "ctx.tar"
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("print(1)\n")
    with tarfile.open(archive, "w") as tar:
        tar.add(tmp_path / "app", "app")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"format": 1, "stages": [{"from": {"template": "default"}, "steps": [
        {"type": "USER", "args": ["root"]},
        {"type": "COPY", "args": ["app", "/srv/", "user", "0600"], "archive": str(archive), "hash": "a1"},
        {"type": "ENV", "args": ["A", "$B"]},
        {"type": "RUN", "args": ["echo \"$A\"; ls -l /srv; exit 2"]}]}]}))
    done = subprocess.run([BIN / "cubby", "template", "build", "made", "--plan", plan, "--json"],
                          env=builder.env, timeout=120, capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1 and "RUN echo" in events[-1]["message"]
    assert output(events)[0] == "$B", "a plan has no variables to expand"
    assert any("-rw------- 1 user user" in line and "main.py" in line for line in output(events))
