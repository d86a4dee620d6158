# SPDX-License-Identifier: Apache-2.0
"""Templates of images: `cubby template build --from`, with real registries, guests and sandboxes.

The image is a small one with nothing but busybox: no bash, no Python, a user of its own.
"""
import crypt
import json
import os
import pathlib
import signal
import socket
import subprocess
import tarfile
import threading

import pytest
from harness import BIN, Home, Mcp, ToolError, link_kernel_package, wait_for
from liar import Liar
from oci_image import Layout, busybox_layer, file, folder, link
from registry import Registry, damage, login_file

BUSYBOX = "/usr/bin/busybox"
CONFIG = {"Env": ["PATH=/app/bin:/bin", "GREETING=hello world"], "WorkingDir": "/app", "User": "app",
          "Labels": {"org.example": "label"}}
APP = [folder("app", 0o755, 1000, 1000), file("app/bin/tool", "#!/bin/sh\necho tool\n", 0o755),
       file("tmp/kept", "of the image\n")]


class World(Home):
    """A state directory whose cache has the guest kernel's package of the tests' template."""

    def __init__(self):
        super().__init__(tier="auto")
        (self.path / "templates").unlink()
        link_kernel_package(self.path)

    def cubby(self, *words, check=True, timeout=170, **options):
        done = subprocess.run([BIN / "cubby", *words], env=self.env, capture_output=True, timeout=timeout, text=True,
                              **options)
        assert not check or done.returncode == 0, (done.stdout, done.stderr)
        return done

    def build(self, name, *words, **options):
        return self.cubby("template", "build", name, *words, **options)

    def refusal(self, *words, **options):
        """What a build says that fails; nothing of it is left."""
        done = self.build("refused", *words, check=False, **options)
        assert done.returncode == 1, done.stdout
        left = [name for name in os.listdir(self.path / "templates") if "refused" in name]
        assert not left, left
        return done.stderr

    def facts(self, name):
        return json.loads((self.path / "templates" / name / "template.json").read_text())

    def sandbox(self, template, tier="microvm", *words):
        return self.cubby("create", "--template", template, "--tier", tier, "--timeout", "300", *words).stdout.strip()

    def run(self, sandbox, script, *words):
        return self.cubby("exec", *words, sandbox, "--", "/bin/bash", "-l", "-c", script).stdout


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    place = tmp_path_factory.mktemp("image")
    layout = Layout(place / "small")
    return layout, layout.write([busybox_layer(BUSYBOX), APP], CONFIG)


@pytest.fixture(scope="module")
def world(images, tmp_path_factory):
    w = World()
    registry = Registry(tmp_path_factory.mktemp("registry"))
    try:
        name = registry.push(images[1], "team/small:1")
        w.build("small", "--from", name, "--plain-http", "--start", "mkdir /tmp/started && exec sleep 12345",
                "--ready", "test -d /tmp/started")
        w.registry = registry
        yield w
    finally:
        registry.close()
        w.close()


def test_the_facts_of_an_image(world):
    facts = world.facts("small")
    assert facts["environment"] == {"variables": {"PATH": "/app/bin:/bin", "GREETING": "hello world"},
                                    "directory": "/app", "user": "app"}
    assert facts["image"]["labels"] == {"org.example": "label"} and facts["image"]["digest"].startswith("sha256:")
    assert facts["image"]["reference"].endswith("team/small:1") and facts["image"]["layers"] == 2
    assert facts["python"] is False and "python_kernel" not in facts
    assert facts["start"]["ready"] == "test -d /tmp/started"
    assert "gvisor" in facts or not (BIN / "runsc").exists()
    # Room for the memory of a warm kernel, which this image has not.
    assert not (world.path / "templates/small/gvisor/memory.erofs").exists()


@pytest.mark.parametrize("tier", ["microvm", "gvisor"])
def test_commands_get_what_the_image_says(world, tier):
    box = world.sandbox("small", tier)
    said = world.run(box, "id -un; pwd; echo $GREETING; tool; echo $0; ps | grep -c '[s]leep 12345'").split("\n")
    assert said[:-1] == ["app", "/app", "hello world", "tool", "/bin/sh", "1"]
    assert world.run(box, "cat /tmp/kept; ls -A /tmp /var/tmp").split() == [
        "of", "the", "image", "/tmp:", *([".X11-unix"] if tier == "gvisor" else []), "kept", "started", "/var/tmp:"]
    assert world.run(box, "echo $GREETING; pwd; id -un", "--env", "GREETING=mine", "--cwd", "/tmp", "--user",
                     "root") == "mine\n/tmp\nroot\n"
    world.cubby("kill", box)


# Both changes get the same time, which will not be over for long. Plain Python runs the old code then.
PATCH = """cd /tmp
write() { echo "V = $1" >m.py; touch -d '2037-01-01 00:00:00' m.py; }
write 1; python3 -c 'import m; print(m.V)'
write 2; python3 -c 'import m; print(m.V)'"""


def python_layer():
    """This host's Python, with its standard library and what it is linked to."""
    program = os.path.realpath("/usr/bin/python3")
    library = pathlib.Path("/usr/lib") / os.path.basename(program)
    linked = [word for word in subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout.split()
              if word.startswith("/")]
    files = [path for path in library.rglob("*.py") if path.name != "sitecustomize.py" and "test" not in path.parts]
    entries = [file(str(path).lstrip("/"), pathlib.Path(path).read_bytes(), 0o755)
               for path in (program, *linked, *files, *library.glob("lib-dynload/*"))]
    return [*entries, link("usr/bin/python3", program)]


def test_python_of_an_image_runs_the_current_code(world, tmp_path):
    """Also after two changes within one second (docs/guest.md)."""
    image = Layout(tmp_path / "i").write([busybox_layer(BUSYBOX), python_layer()], {"Env": ["PATH=/usr/bin:/bin"]})
    done = world.build("with-python", "--minimal", "--from", image)
    assert "caches stay" not in done.stderr and world.facts("with-python")["python_kernel"] == "fresh"
    box = world.sandbox("with-python")
    assert world.run(box, PATCH) == "1\n2\n"
    without_site = PATCH.replace("python3 -c", "python3 -S -c")
    assert world.run(box, without_site) == "1\n1\n", "plain Python is expected to run the old code"
    world.cubby("kill", box)


def test_a_caller_overrides_variables_of_the_template(world):
    box = world.sandbox("small", "microvm", "--env", "GREETING=yours")
    assert world.run(box, "echo $GREETING; echo $PATH") == "yours\n/app/bin:/bin\n"
    world.cubby("kill", box)


def test_a_model_without_bash(world):
    box = world.sandbox("small")
    mcp = Mcp(world)
    try:
        mcp.initialize()
        assert mcp.tool("run_command", sandbox_id=box, command="echo $((6*7)); pwd")["stdout"] == "42\n/app\n"
        error = mcp.tool("run_python_code", sandbox_id=box, code_block="1")["error"]
        assert error["name"] == "NoPython" and "no python3" in error["value"]
        for tool, arguments in (("run_command", {"command": "echo 1", "session": "s"}), ("start_command", {"command": "true"}),
                                ("search_files", {"pattern": "x"})):
            with pytest.raises(ToolError, match="bash"):
                mcp.tool(tool, sandbox_id=box, **arguments)
    finally:
        mcp.close()
    world.cubby("kill", box)


def test_a_private_registry(world, images, tmp_path):
    users = f"user:{crypt.crypt('password', crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16))}\n"
    private = Registry(tmp_path, users)
    name = private.push(images[1], "own/small:1", "user:password")
    wrong = login_file(tmp_path / "wrong.json", private.name, "user", "guess")
    right = login_file(tmp_path / "right.json", private.name, "user", "password")
    said = world.refusal("--from", name, "--plain-http", "--authfile", str(wrong))
    assert "pull" in said and "guess" not in said
    world.build("private", "--from", name, "--plain-http", "--authfile", str(right))
    text = (world.path / "templates/private/template.json").read_text()
    assert "own/small:1" in text and "password" not in text
    private.close()


def test_an_archive_on_standard_input(world, images, tmp_path):
    archive = tmp_path / "saved.tar"
    subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", images[1], f"docker-archive:{archive}:small:2"],
                   check=True, timeout=60)
    with open(archive, "rb") as saved:
        world.build("piped", "--from", "-", stdin=saved)
    assert world.facts("piped")["environment"]["user"] == "app"


def test_a_compressed_archive_on_busybox(world, tmp_path):
    """As E2B's SDKs upload it. This tar does not see gzip."""
    with tarfile.open(tmp_path / "a.tar", "w:gz") as tar:
        tar.add(__file__, "source")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"format": 1, "stages": [{"from": {"template": "small"}, "steps": [
        {"type": "COPY", "args": ["source", "/copied"], "archive": str(tmp_path / "a.tar"), "hash": "1"}]}]}))
    world.build("copied", "--plan", str(plan))
    box = world.sandbox("copied")
    assert world.run(box, "cat /copied") == pathlib.Path(__file__).read_text()
    world.cubby("kill", box)


def test_a_disk_file_goes_on(world, tmp_path):
    disk = tmp_path / "disk.ext4"
    subprocess.run(["cp", "--sparse=always", world.path / "templates/small/disk.ext4", disk], check=True)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"variables": {"X": "y z"}, "user": "root", "directory": "/tmp"}))
    world.build("disk", "--from-disk", str(disk), "--config", str(config), "--disk", "9G")
    assert disk.exists() and world.facts("disk")["disk_mb"] == 9216
    box = world.sandbox("disk")
    assert world.run(box, "id -un; pwd; echo $X; df -m / | tail -n 1 | awk '{print ($2 > 8500)}'") == "root\n/tmp\ny z\n1\n"
    world.cubby("kill", box)


def test_a_disk_without_the_account(world, tmp_path):
    (tmp_path / "root/bin").mkdir(parents=True)
    (tmp_path / "root/bin/sh").write_text("#!/x")
    (tmp_path / "root/bin/sh").chmod(0o755)
    disk = tmp_path / "disk.ext4"
    with open(disk, "wb") as out:
        out.truncate(8 << 20)
    subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-d", tmp_path / "root", disk], check=True)
    said = world.refusal("--from-disk", str(disk))
    assert 'the disk has no user "user"' in said and "boot" not in said


def test_a_start_command_that_fails(world, images):
    said = world.refusal("--from", images[1], "--start", "echo the reason; exit 7")
    assert "start command" in said and "status 7" in said and "the reason" in said


def test_an_unknown_user(world, tmp_path):
    reference = Layout(tmp_path / "i").write([busybox_layer(BUSYBOX)], {"User": "nobody-knows"})
    said = world.refusal("--from", reference)
    assert 'the image has no user "nobody-knows"' in said and "boot" not in said


def test_refused_images(world, tmp_path, images):
    shell = [folder("bin"), file("bin/x", "x", 0o755)]
    assert "has no shell" in world.refusal("--from", Layout(tmp_path / "a").write([shell]))
    assert "leaves the image" in world.refusal("--from", Layout(tmp_path / "b").write([busybox_layer(BUSYBOX), [file("../x")]]))
    assert "arm64" in world.refusal("--from", Layout(tmp_path / "c").write([shell], architecture="arm64"))
    last = world.refusal("--from", f"{world.registry.name}/team/none:1", "--plain-http").splitlines()[-1]
    assert "none:1: skopeo failed with status 1: " in last and " unknown" in last, "the error itself has the reason"
    assert "names no image" in world.refusal("--from", "ftp://a/b")
    assert "ext4" in world.refusal("--from-disk", "/etc/passwd")


def test_a_damaged_image(world, tmp_path):
    layout = Layout(tmp_path / "d")
    reference = layout.write([busybox_layer(BUSYBOX)])
    manifest = json.loads((layout.path / "index.json").read_text())["manifests"][0]["digest"].removeprefix("sha256:")
    layers = json.loads((layout.path / "blobs/sha256" / manifest).read_text())["layers"]
    damage(layout.path, layers[0]["digest"])
    assert "pull" in world.refusal("--from", reference)


@pytest.fixture
def liar(images):
    """Make registries that lie about the image."""
    made = []

    def make(*words, **more):
        made.append(Liar(images[0], *words, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("part, lie, said", [
    ("manifest", "bytes", "does not match provided manifest digest"),
    ("layer", "bytes", "Digest did not match"),
    ("layer", "short", "unexpected EOF"),
    ("manifest", "short", "unexpected EOF"),
], ids=lambda word: word.split()[0])
def test_a_registry_that_lies(world, liar, part, lie, said):
    """The error says what is wrong, and nothing is left of the build."""
    answer = world.refusal("--from", liar(part, lie).reference(), "--plain-http")
    assert "pull docker://127.0.0.1" in answer and said in answer, answer


def test_a_registry_that_redirects_to_where_nobody_is(world, liar):
    """A pull of the operator's follows a redirect, and says which address it could not reach."""
    to = "http://127.0.0.1:1/elsewhere"
    answer = world.refusal("--from", liar("layer", "redirect", redirect=to).reference(), "--plain-http")
    assert "pull docker://127.0.0.1" in answer and "127.0.0.1:1" in answer and "refused" in answer, answer


def test_a_bomb(world, tmp_path):
    reference = Layout(tmp_path / "z").write([busybox_layer(BUSYBOX), [file("zeros", bytes(1100 << 20))]])
    assert "larger --disk" in world.refusal("--from", reference, "--disk", "1G")


def test_an_interrupted_pull_leaves_nothing(world):
    silent = socket.create_server(("127.0.0.1", 0))
    asked = threading.Event()

    def accept():
        connection = silent.accept()[0]
        connection.recv(1)
        asked.set()
        connection.recv(1 << 20)

    threading.Thread(target=accept, daemon=True).start()
    build = subprocess.Popen([BIN / "cubby", "template", "build", "silent", "--plain-http", "--from",
                              f"127.0.0.1:{silent.getsockname()[1]}/a:1"], env=world.env, stderr=subprocess.PIPE, text=True)
    assert asked.wait(30)
    build.send_signal(signal.SIGINT)
    said = build.communicate(timeout=60)[1]
    assert build.returncode == 130, said
    wait_for(lambda: not [name for name in os.listdir(world.path / "templates") if "silent" in name], what="no rest")
    silent.close()


def test_the_guests_of_a_build_are_jailed(world, images):
    before = set(world.processes("qemu-system")) | set(world.processes("cubby-netd"))
    build = subprocess.Popen([BIN / "cubby", "template", "build", "jailed", "--from", images[1], "--start", "sleep 1000",
                              "--ready", "false"], env=world.env, stderr=subprocess.PIPE, text=True)

    def of_build(program, word=""):
        return [pid for pid in world.processes(program)
                if pid not in before and word in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]

    # The probe of the accelerator, which runs no file of the image, has neither.
    netd = wait_for(lambda: of_build("cubby-netd"), 90, "netd of the build")[0]
    qemu = wait_for(lambda: of_build("qemu-system", "guest=cubby-template"), 30, "QEMU of the build")[0]
    for pid in (qemu, netd):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        assert "NoNewPrivs:\t1" in status and "CapEff:\t0000000000000000" in status
        assert os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")
    assert os.readlink(f"/proc/{qemu}/ns/net") != os.readlink("/proc/self/ns/net")
    assert not pathlib.Path(f"/proc/{qemu}/root/etc/passwd").exists()
    build.send_signal(signal.SIGINT)
    said = build.communicate(timeout=60)[1]
    assert build.returncode == 130, said
    assert not of_build("qemu-system") and "jailed" not in os.listdir(world.path / "templates")
