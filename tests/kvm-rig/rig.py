#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cubby on a host with a working /dev/kvm, on any machine: `make kvm-rig PART=smoke`.

The host is a Debian 12 machine that QEMU emulates, with AMD's SVM (the outer machine). KVM works in
it, so Cubby's sandboxes in it are real guests of KVM (the inner machines). It has a kernel of
backports, which has PAGEMAP_SCAN; QEMU of backports emulates it. This program makes its disks,
starts it, follows what its part reports, and watches its console. inside.py has the parts.

Time. The outer machine's clock counts the instructions that it has executed, not seconds: one takes
2^PACE nanoseconds (QEMU's -icount). So Cubby's and the tests' time limits hold as on a machine of
that speed, however slow the emulation is, and nothing of them is changed. PACE=0, the default, is a
machine with 10^9 instructions a second. What is measured in it says nothing about a real host.

    rig.py make           make what lasts: the outer machine's root, QEMU, a template's archive
    rig.py run PART...    start the outer machine and run the parts in it; exit with 0 if they passed

The environment names the place (RIG, a directory), the tree's programs (BUILD), the state directory
of the tests (TEST_HOME), whose template the rig imports, and the packages that Cubby's programs and
tests need (RIG_PACKAGES); CPUS, PACE and LIMIT (seconds) are settings.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
RIG = pathlib.Path(os.environ["RIG"])
BUILD = pathlib.Path(os.environ["BUILD"])
TEST_HOME = pathlib.Path(os.environ["TEST_HOME"])
CPUS = int(os.environ.get("CPUS") or 1)
PACE = int(os.environ.get("PACE") or 0)
LIMIT = int(os.environ.get("LIMIT") or 4 * 3600)

MIRROR = "http://deb.debian.org/debian"
SOURCES = [f"deb {MIRROR} bookworm main", f"deb {MIRROR} bookworm-updates main",
           "deb http://deb.debian.org/debian-security bookworm-security main", f"deb {MIRROR} bookworm-backports main"]
# Of backports are only these source packages.
PIN = "Package: {}\\nPin: release n=bookworm-backports\\nPin-Priority: 600\\n"
OUTER = ["linux-image-amd64", "systemd-sysv", "udev", "dbus", "kmod", "strace", "psmisc", "adduser", "sudo", "zstd"]
# An initramfs with all drivers takes the outer machine a minute to unpack.
INITRAMFS = {"etc/initramfs-tools/conf.d/rig": "MODULES=list",
             "usr/share/initramfs-tools/modules.d/rig": "virtio_pci\\nvirtio_blk\\next4"}
NOT_NEEDED = ["usr/share/doc/*", "usr/share/man/*", "usr/share/locale/*"]
MASKED = ["apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer", "e2scrub_all.timer",
          "e2scrub_reap.service", "systemd-timesyncd.service", "getty@tty1.service", "serial-getty@ttyS0.service"]
FILES = {
    "etc/fstab": "".join(f"/dev/{disk} {where} ext4 rw,noatime 0 2\n"
                         for disk, where in (("vda", "/"), ("vdb", "/rig"), ("vdc", "/kept"))),
    "etc/hostname": "kvm-rig\n",
    "etc/hosts": "127.0.0.1 localhost kvm-rig\n",
    "etc/modules-load.d/kvm.conf": "kvm_amd\n",
    "etc/systemd/system/rig.service": """[Unit]
Description=A part of Cubby's KVM rig
RequiresMountsFor=/rig /kept
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -u /rig/cubby/tests/kvm-rig/inside.py
StandardOutput=file:/dev/ttyS1
StandardError=inherit
ExecStopPost=/bin/systemctl --no-block poweroff
Delegate=yes
TimeoutStartSec=infinity
""",
}
# Only Python, so they work with the outer machine's Python as well.
PYTEST = ["pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pytest_timeout.py"]
CPU = "qemu64,+svm,+npt,+arat,+ssse3,+sse4.1,+sse4.2,+popcnt,+rdrand,+fsgsbase,+cx16"
KERNEL = ("root=/dev/vda rw console=ttyS0 panic=-1 oops=panic mitigations=off nowatchdog tsc_early_khz=1000000 "
          "tsc=reliable no_timer_check audit=0 norandmaps init_on_alloc=0 net.ifnames=0 systemd.show_status=0 "
          # KVM's busy waiting executes millions of PAUSE, each of which costs QEMU a turn of its main loop.
          "kvm.halt_poll_ns=0 kvm.lapic_timer_advance=0")
BROKEN = re.compile(r"Kernel panic|BUG:|Oops:|general protection fault|soft lockup|stack guard|rcu_sched self-detected"
                    r"|blocked for more than|triple fault")
END = re.compile(r"^rig: (\d+) failed, \d+ passed$", re.M)


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, **options)


# ---- what lasts
def debian(target, variant, pinned, packages):
    pin = PIN.format(" ".join(f"src:{name}" for name in pinned))
    first = {"etc/apt/preferences.d/rig": pin, **(INITRAMFS if variant == "apt" else {})}
    run("mmdebstrap", f"--variant={variant}", '--aptopt=Acquire::Languages "none"', "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude=/{path}" for path in NOT_NEEDED),
        *(f"--setup-hook=mkdir -p \"$1/$(dirname {path})\" && printf '{text}\\n' >\"$1/{path}\""
          for path, text in first.items()), f"--include={','.join(packages)}",
        "bookworm", target, *SOURCES)


def unpack(archive, target):
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    run("tar", "-C", target, "--numeric-owner", "--exclude=./dev/*", "-xf", archive)


def make_qemu():
    archive = RIG / "qemu.tar"
    debian(archive, "extract", ["qemu", "seabios"], ["qemu-system-x86"])
    unpack(archive, RIG / "qemu.part")
    archive.unlink()
    (RIG / "qemu.part").rename(RIG / "qemu")


def write_files(root):
    for path, text in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    units = root / "etc/systemd/system"
    for name in MASKED:
        (units / name).symlink_to("/dev/null")
    (units / "multi-user.target.wants/rig.service").symlink_to("../rig.service")
    (root / "etc/tmpfiles.d/tmp.conf").symlink_to("/dev/null")  # else /tmp is emptied at each start
    for name in "rig", "kept":
        (root / name).mkdir()


def make_root():
    """The root's disk, and beside it its kernel. It is never written to: see -snapshot below."""
    archive, root = RIG / "root.tar", RIG / "root"
    if not archive.exists():
        debian(RIG / "root.part.tar", "apt", ["linux", "linux-signed-amd64", "linux-base"],
               OUTER + os.environ["RIG_PACKAGES"].split())
        (RIG / "root.part.tar").rename(archive)
    unpack(archive, root)
    write_files(root)
    for kind in "vmlinuz", "initrd.img":
        (file,) = (root / "boot").glob(f"{kind}-*")
        shutil.copy(file, RIG / kind)
    disk(RIG / "root.part.ext4", "6G", root)
    (RIG / "root.part.ext4").rename(RIG / "root.ext4")
    shutil.rmtree(root)


def disk(path, size, contents=None):
    path.unlink(missing_ok=True)
    run("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", *(["-d", contents] if contents else []),
        path, size)


def make_template():
    """The archive of the tests' template, which a part imports: its disk, guest kernel and initramfs."""
    facts, archive = TEST_HOME / "templates/default/template.json", RIG / "template.cubby"
    if archive.exists() and archive.stat().st_mtime > facts.stat().st_mtime:
        return
    archive.unlink(missing_ok=True)
    run(BUILD / "bin/cubby", "template", "export", "default", archive,
        env={**os.environ, "CUBBY_HOME": str(TEST_HOME)})


def make():
    RIG.mkdir(parents=True, exist_ok=True)
    if not (RIG / "qemu").is_dir():
        make_qemu()
    wanted = " ".join(OUTER + os.environ["RIG_PACKAGES"].split())
    has = RIG / "root.packages"
    if not has.exists() or has.read_text() != wanted:
        for old in "root.tar", "root.ext4":
            (RIG / old).unlink(missing_ok=True)
    if not (RIG / "root.ext4").exists():
        make_root()
        has.write_text(wanted)
    make_template()
    if not (RIG / "kept.ext4").exists():  # what parts leave to other parts, such as the template
        disk(RIG / "kept.ext4", "8G")


# ---- a run
def make_tree(parts):
    """A disk with this tree and its programs as they are now, at /rig in the outer machine."""
    tree = RIG / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "cubby/build").mkdir(parents=True)
    names = subprocess.run(["git", "ls-files", "-z", "tests", "schemas", "sandbox-backend/daemon/cubbyd.service",
                            "docs/hosts.md"],
                           cwd=TREE, check=True, capture_output=True).stdout
    run("cp", "-r", "--parents", *filter(None, names.decode().split("\0")), tree / "cubby", cwd=TREE)
    for name in "bin", "guest":
        run("cp", "-r", BUILD / name, tree / "cubby/build")
    (site,) = (BUILD / "venv/lib").glob("python3*/site-packages")
    (tree / "python").mkdir()
    run("cp", "-r", *(site / name for name in PYTEST), *site.glob("pluggy-*.dist-info"), tree / "python")
    (tree / "cubby/build/bin/runsc").unlink(missing_ok=True)  # KVM's sandboxes only
    (tree / "cubby/build/test").mkdir()
    for name in "breakout", "cubbyd-process", "envd", "faults", "http-serve", "machine-shell":
        run("cp", "-r", BUILD / "test" / name, tree / "cubby/build/test")
    run("cp", "--preserve=timestamps", RIG / "template.cubby", tree)
    (tree / "parts").write_text(" ".join(parts))
    disk(RIG / "tree.ext4", "4G", tree)
    shutil.rmtree(tree)


def command():
    """QEMU of backports, with its own libraries."""
    qemu, libraries = RIG / "qemu", "usr/lib/x86_64-linux-gnu"
    words = [qemu / "lib64/ld-linux-x86-64.so.2", "--library-path",
             f"{qemu}/{libraries}:{qemu}/lib/x86_64-linux-gnu:{qemu}/{libraries}/pulseaudio",
             qemu / "usr/bin/qemu-system-x86_64", "-L", qemu / "usr/share/qemu", "-L", qemu / "usr/share/seabios",
             "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-machine", "q35", "-accel",
             "tcg,thread=single,tb-size=1024", "-icount", f"shift={PACE},sleep=on", "-rtc", "clock=vm",
             "-smp", CPUS, "-m", "8G", "-cpu", CPU, "-kernel", RIG / "vmlinuz", "-initrd", RIG / "initrd.img",
             "-append", KERNEL, "-serial", f"file:{RIG}/console.log", "-serial", f"file:{RIG}/report.log",
             "-monitor", f"unix:{RIG}/monitor,server=on,wait=off",
             "-d", "guest_errors,cpu_reset", "-D", RIG / "qemu.log"]
    for name, more in ("root", ",snapshot=on"), ("tree", ",snapshot=on"), ("kept", ""):
        words += ["-drive", f"file={RIG}/{name}.ext4,format=raw,if=virtio,cache=unsafe{more}"]
    return ["nice", "-n", "10", *map(str, words)]


def follow(machine):
    """Prints what the part reports, until the machine ends. Returns why it must be ended, or None."""
    deadline = time.monotonic() + LIMIT
    report = open(RIG / "report.log", "rb")
    console = open(RIG / "console.log", "rb")
    while True:
        ended = machine.poll() is not None
        sys.stdout.write(report.read().decode(errors="replace"))
        sys.stdout.flush()
        for line in console.read().decode(errors="replace").splitlines():
            if BROKEN.search(line):
                return f"the outer machine's kernel: {line.strip()}"
        if ended:
            return None
        if time.monotonic() > deadline:
            return f"not done within LIMIT={LIMIT} seconds"
        time.sleep(0.5)  # two files grow; nothing else happens meanwhile


def run_parts(parts):
    make_tree(parts)
    for name in "console.log", "report.log":
        (RIG / name).write_bytes(b"")
    began = time.monotonic()
    machine = subprocess.Popen(command(), stdin=subprocess.DEVNULL)
    try:
        why = follow(machine)
    finally:
        machine.kill()
        machine.wait()
        (RIG / "tree.ext4").unlink()
    end = END.search((RIG / "report.log").read_text(errors="replace"))
    print(f"kvm-rig: {' '.join(parts)} took {time.monotonic() - began:.0f} s; {RIG} has console.log, report.log and qemu.log")
    if not end:
        sys.exit(f"kvm-rig: {why or 'the outer machine ended before the part did'}")
    sys.exit(0 if end[1] == "0" and not why else 1)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("kvm-rig: ended by a signal"))  # the machine ends as well
    if os.geteuid() != 0:
        sys.exit("kvm-rig: run it as root, so that files of the machine's disk are root's")
    if sys.argv[1:] == ["make"]:
        make()
    elif len(sys.argv) > 2 and sys.argv[1] == "run":
        run_parts(sys.argv[2:])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
