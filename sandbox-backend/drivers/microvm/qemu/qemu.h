// SPDX-License-Identifier: Apache-2.0
// The only file that knows QEMU's command line: a template's boot and a sandbox's restore must be
// the same machine, with the same devices, or the restore fails (or worse, seems to work).
//
// How to boot (template build):
//   int qmp_listener = fd_listen_unix(path_of_qmp_sock, &e);
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
#include "sandbox-backend/drivers/host/arch.h"

// The argument of -M. QEMU chooses timers and interrupt controllers by accelerator, so they are
// named here: one string then defines the machine type. On x86-64, ACPI is on because Debian's
// cloud kernel finds virtio-mmio devices only through it, and because it makes a guest's power-off
// an event. On arm64, the kernel has a device tree and PSCI for these.
#if defined(__x86_64__)
#define QEMU_MACHINE \
    ARCH_QEMU_MACHINE ",acpi=on,pit=on,pic=on,rtc=on,isa-serial=on,pcie=off,usb=off"
#else
#define QEMU_MACHINE ARCH_QEMU_MACHINE ",acpi=off,gic-version=3"
#endif

// The numbers of the child's descriptors. QEMU opens no sandbox or template file itself; only a
// booting machine opens its kernel and initramfs by name. Each descriptor has only the access that
// QEMU needs. So a QEMU that its guest has broken into needs no path to any file, and in its jail
// it has none.
enum {
    QEMU_FD_QMP = 3,     // a listening unix socket: a later daemon can connect again
    QEMU_FD_NET = 4,     // connected socket of frames (cubby-netd has the other end)
    QEMU_FD_VMSTATE = 5, // the device state that a restore reads; -1 for a boot
    QEMU_FD_MEMORY = 6,  // the file of the guest's memory; read-only unless shared
    QEMU_FD_DISK = 7,    // raw image; read-only if there is an overlay
    QEMU_FD_OVERLAY = 8, // qcow2 over QEMU_FD_DISK; -1 without an overlay
    QEMU_FD_CONSOLE = 9, // a file for the serial console; -1: a ring in QEMU's memory
    QEMU_FD_COUNT
};

// The block layer and character devices take a descriptor as a set with one member, "/dev/fdset/N".
#define QEMU_FDSET "/dev/fdset/"
enum {
    QEMU_SET_DISK = 1,
    QEMU_SET_OVERLAY = 2,
    QEMU_SET_CONSOLE = 3,
    QEMU_SET_SAVE_DISK = 4, // this and the next are added by QMP, while a machine is saved
    QEMU_SET_SAVE_DEVICES = 5,
};

// QEMU opens the file of the guest's memory by name, for reading and writing, even if it then maps
// the file privately. preload/qemu_preload.c answers this name with QEMU_FD_MEMORY. No real file
// can have the name, because /dev/null is not a directory.
#define QEMU_MEMORY_PATH "/dev/null/cubby-memory"
#define QEMU_VMSTATE_URI "fd:5" // for "migrate-incoming"

// Names of devices and nodes for QMP, the same in every machine.
#define QEMU_CONSOLE_ID     "console"   // the character device
#define QEMU_CONSOLE_BYTES  (64 * 1024) // size of its ring
#define QEMU_DISK_NODE      "disk0"     // the node that the guest reads and writes as /dev/vda
#define QEMU_DISK_ID        "blk0"
#define QEMU_DISK_BASE_NODE "base" // the template's base disk, below it

#define QEMU_TB_SIZE_MB 64 // translation cache: the largest part of a TCG machine's private memory
#define QEMU_GUEST_MAC  "52:54:00:c0:bb:01"

struct qemu_config {
    const char *binary;    // argv[0]
    const char *name;      // ps shows it
    const char *machine;   // QEMU_MACHINE, or as the template recorded it
    const char *accel;     // "tcg" or "kvm"
    const char *cpu_model; // qemu_cpu_model(accel), or as the template recorded it
    int memory_mb;
    int cpus;
    bool memory_shared; // true: the guest writes QEMU_FD_MEMORY; false: copy on write
    bool gives_back;    // the guest reports free memory; as the template recorded it
    bool disk_overlay;  // true: QEMU_FD_OVERLAY is written; false: QEMU_FD_DISK
    bool console_file;  // true: QEMU_FD_CONSOLE is written; false: the ring
    const char *kernel; // this and the next two: for a boot
    const char *initrd;
    const char *append;
    bool incoming;  // instead of a boot, wait for "migrate-incoming"
    bool no_header; // with `incoming`: the state has no configuration section (image/vmstate.h)
};

// Return QEMU's arguments as a new NULL-terminated array; free it with qemu_argv_free.
char **qemu_argv(const struct qemu_config *c);
void qemu_argv_free(char **argv);

// Return the path of the object that must be preloaded into QEMU so that it finds QEMU_MEMORY_PATH.
// New string, or NULL.
char *qemu_preload(struct err *e);

// Return the value for -cpu. TCG: a model that the translator runs quickly (see qemu.c); KVM: the
// host's.
const char *qemu_cpu_model(const char *accel);

// Return the kernel arguments for this machine and accelerator, which go before the template's own.
// They set the console, turn a panic into an event, and turn off what is slow or fails under
// emulation. New string.
char *qemu_kernel_args(const char *accel);

// Read the clock, so that a later qemu_kernel_args need not wait. qemu_kernel_args needs two
// readings of the clock at least about 20 ms apart.
void qemu_watch_clock(void);
