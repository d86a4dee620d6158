// SPDX-License-Identifier: Apache-2.0
// The one place that knows QEMU's command line: a template's boot and a sandbox's restore must be
// the same machine, with the same devices, or the restore fails (or worse, does not).
//
// How to boot (template build):
//   int qmp_listener = qemu_qmp_listen(path_of_qmp_sock, &e);
//   struct qemu_config c = {.name = "cubby-build", .machine = QEMU_MACHINE, .accel = "tcg",
//       .cpu_model = qemu_cpu_model("tcg"), .memory_mb = 512, .cpus = 1, .memory_shared = true,
//       .console_file = true, .kernel = ..., .initrd = ..., .append = ...};
//   char **argv = qemu_argv(&c);
//   subproc_start() (subproc.h) with the descriptors of QEMU_FD_*, and with qemu_preload().
//   qmp_open(loop, qmp_connect(path_of_qmp_sock, &e), ...) may be called at once, and commands be
//   sent at once: they wait in the socket until QEMU is up.
// and to save: execute "stop", "migrate-set-capabilities" with x-ignore-shared and events on,
// qmp_give_fd(q, "vmstate", file), "migrate" to "fd:vmstate", wait for the event MIGRATION with
// status "completed", "quit".
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// -M. ACPI is on because Debian's cloud kernel finds virtio-mmio devices by nothing else, and
// because it makes a guest's power-off an event. The timers and the interrupt controllers that QEMU
// chooses by accelerator are named, so that one string says it all.
#define QEMU_MACHINE "microvm,acpi=on,pit=on,pic=on,rtc=on,isa-serial=on,pcie=off,usb=off"

// What the child finds at which descriptor. QEMU opens no file of a sandbox or of a template by
// itself (a kernel and an initramfs apart, where it boots): what is given here is open for what it
// is to do with it and no more, so that a QEMU that its guest has broken into needs, and in its
// jail has, no way to any file.
enum {
    QEMU_FD_QMP = 3,     // a listening unix socket: a later daemon can connect again
    QEMU_FD_NET = 4,     // connected socket of frames (cubby-netd has the other end)
    QEMU_FD_VMSTATE = 5, // the device state that a restore reads; -1 for a boot
    QEMU_FD_MEMORY = 6,  // the file that is the guest's memory; for reading only, unless shared
    QEMU_FD_DISK = 7,    // raw image; for reading only where there is an overlay
    QEMU_FD_OVERLAY = 8, // qcow2 over it; -1 without one
    QEMU_FD_CONSOLE = 9, // a file for the serial console; -1: it is a ring in QEMU
    QEMU_FD_COUNT
};

// The block layer and character devices take a descriptor as a set of one, "/dev/fdset/N".
#define QEMU_FDSET "/dev/fdset/"
enum {
    QEMU_SET_DISK = 1,
    QEMU_SET_OVERLAY = 2,
    QEMU_SET_CONSOLE = 3,
    QEMU_SET_SAVE_DISK = 4, // these two by QMP, while a machine is saved
    QEMU_SET_SAVE_DEVICES = 5,
};

// The memory's file QEMU opens by name, for reading and writing, even where it then maps it
// privately. preload/qemu_preload.c answers this name with QEMU_FD_MEMORY. Nothing else can: below
// a file that is no directory none can be opened, nor made.
#define QEMU_MEMORY_PATH "/dev/null/cubby-memory"
#define QEMU_VMSTATE_URI "fd:5" // for "migrate-incoming"

// Names of devices and nodes, for QMP: the same in every machine.
#define QEMU_CONSOLE_ID     "console"   // the chardev
#define QEMU_CONSOLE_BYTES  (64 * 1024) // size of that ring
#define QEMU_DISK_NODE      "disk0"     // what the guest's /dev/vda reads and writes
#define QEMU_DISK_ID        "blk0"
#define QEMU_DISK_BASE_NODE "base" // the template's, below it

#define QEMU_TB_SIZE_MB 64 // translation cache: the largest part of a TCG machine's private memory
#define QEMU_GUEST_MAC  "52:54:00:c0:bb:01"

struct qemu_config {
    const char *binary;    // argv[0]
    const char *name;      // shown by ps
    const char *machine;   // QEMU_MACHINE, or as the template recorded it
    const char *accel;     // "tcg" or "kvm"
    const char *cpu_model; // qemu_cpu_model(accel), or as the template recorded it
    int memory_mb;
    int cpus;
    bool memory_shared; // true: the guest writes QEMU_FD_MEMORY; false: copy on write
    bool gives_back;    // memory that the guest has freed; as the template recorded it
    bool disk_overlay;  // QEMU_FD_OVERLAY is written; false: QEMU_FD_DISK is
    bool console_file;  // QEMU_FD_CONSOLE is written; false: ring buffer
    const char *kernel; // these three for a boot;
    const char *initrd;
    const char *append;
    bool incoming; // or wait for "migrate-incoming"
    bool image;    // and that with what "xen-save-devices-state" wrote
};

// New NULL-terminated array; qemu_argv_free.
char **qemu_argv(const struct qemu_config *c);
void qemu_argv_free(char **argv);

// The object that must be preloaded into QEMU for it to find QEMU_MEMORY_PATH. New string, or NULL.
char *qemu_preload(struct err *e);

// The value for -cpu. TCG: what its translator is quick at (see qemu.c); KVM: the host's.
const char *qemu_cpu_model(const char *accel);

// Kernel arguments that belong to this machine and accelerator, to stand before the template's own:
// console, what makes a panic an event, and what is slow or fails under emulation. New string.
char *qemu_kernel_args(const char *accel);

// Sooner or later qemu_kernel_args will be needed by a program that should not wait then: it has to
// see the clock at two times, some 20 ms apart or more.
void qemu_watch_clock(void);

// A listening socket at `path`, for QEMU_FD_QMP and for netd's vm.net (mode 0600, a stale one is
// replaced); no user of the host sees where it is. The descriptor, or -1.
int qemu_qmp_listen(const char *path, struct err *e);
