// SPDX-License-Identifier: Apache-2.0
// A template on the disk: `cubby template build` makes it, and the microvm driver restores from it.
//
//   <home>/templates/<name>/
//     template.json       the facts below
//     memory              the guest's RAM, mapped private by every sandbox, never read as a whole
//     vmstate             QEMU's migration stream without the RAM (x-ignore-shared)
//     disk.ext4           the disk as it was when the guest was saved; read-only from then on
//     overlay.qcow2       empty, of the disk's size; copied for each sandbox
//     vmlinuz, initramfs.cpio, packages.txt, build.log
//     .build-<name>-*     beside it: a build in progress (its directory is locked with flock)
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

#define TEMPLATE_FORMAT   1
#define TEMPLATE_DRIVER   "microvm" // in template.json: the driver that runs it (drivers/driver.h)
#define TEMPLATE_DEFAULT  "default"
#define TEMPLATE_MINIMAL  "minimal" // built without the Python kernel
#define TEMPLATE_NAME_MAX 64

#define TEMPLATE_JSON     "template.json"
#define TEMPLATE_MEMORY   "memory"
#define TEMPLATE_VMSTATE  "vmstate"
#define TEMPLATE_DISK     "disk.ext4"
#define TEMPLATE_OVERLAY  "overlay.qcow2"
#define TEMPLATE_KERNEL   "vmlinuz"
#define TEMPLATE_INITRD   "initramfs.cpio"
#define TEMPLATE_PACKAGES "packages.txt"
#define TEMPLATE_LOG      "build.log"

struct template
{
    char *name;       // all strings owned
    char *created_at; // RFC 3339
    char *kernel;     // release: "6.1.0-44-cloud-amd64"
    char *qemu;       // version: "7.2.22"
    char *machine;    // argument of -M
    char *cpu_model;  // argument of -cpu
    char *accel;      // "kvm" or "tcg"
    char *no_kvm;     // why it is "tcg", a sentence; NULL in older templates and with "kvm"
    char *envd_version;
    char *processor;     // under KVM, the processor that the guest saw (processor.h), or NULL
    char *gvisor_rootfs; // hash of what gVisor runs of it (template/gvisor_image.h), or NULL
    int64_t memory_mb;
    int64_t cpus;
    int64_t disk_mb;
    bool python;     // it has the Python kernel
    bool disk_grows; // its envd can grow the disk; older templates cannot
    bool gives_back; // its guest reports free memory, by a device that older templates lack
    // The rest is absent (NULL, false) in a template of Debian packages.
    char *python_kernel; // "warm": as python; "fresh": the guest has only a python3
    char *modules;       // a set of kernel modules that it has beside the usual ones: "docker"
    char *missing;       // packages that could not be installed: "pip a, npm b"
    char *key;           // the cache key of what it was built from
    bool hidden;         // an intermediate result of a build, which no list shows
    json_t *environment; // owned, as the next two: {"variables": {..}, "directory", "user"}
    json_t *image;       // {"reference", "digest", "labels", ...}
    json_t *start;       // {"command", "ready"}
};

void template_fini(struct template *t); // frees the members; leaves it empty

// Read <dir>/template.json. ERR_NOT_FOUND, with what to do, when it is missing; ERR_INVALID when it
// is malformed. `t` is empty on failure.
int template_load(const char *dir, struct template *t, struct err *e);
int template_save(const char *dir, const struct template *t, struct err *e);

// Tell whether the name is [a-z0-9][a-z0-9._@-]* and at most TEMPLATE_NAME_MAX long. A name with
// "@" is a build through the API (daemon/sandbox/built_names.h).
bool template_name_ok(const char *name);
// New string: <home>/templates/<name>. A template of the system has another directory
// (drivers/template_dirs.h).
char *template_dir(const char *home, const char *name);

// Call `each` for each whole template of <home>, in the order of their names, and then for those of
// the system whose names the home's do not have. Call `bad` (may be NULL) for a directory without a
// readable template.json, and for a template of the system that must not be used. Stop when `each`
// returns non-zero, and return that value.
int template_list(const char *home,
                  int (*each)(const struct template *t, const char *dir, void *ctx),
                  void (*bad)(const char *name, const struct err *why, void *ctx), void *ctx,
                  struct err *e);

// Return the snapshots that need the template, "snap-a, snap-b ...", as a new string; NULL when
// there are none.
char *template_snapshots(const char *home, const char *name);
// The same for hibernated sandboxes, which can be woken only with the template as it is.
char *template_hibernated(const char *home, const char *name);
// Remove a template. ERR_CONFLICT, which names some of them, when a sandbox or a snapshot needs it.
// With `force` it is removed all the same: running sandboxes keep their open files but cannot be
// adopted, hibernated sandboxes cannot be woken, and its snapshots cannot be used.
int template_check_unused(const char *home, const char *name, struct err *e); // the same check
int template_remove(const char *home, const char *name, bool force, struct err *e);
// Remove a template of this directory of templates, without that check.
int template_remove_from(const char *templates, const char *name, struct err *e);

// ---- a template with the size of a machine that differs from it. The template's memory file fits
// only the memory size and the processors that it was saved with. A machine of another size has a
// memory of its own, which is zero at first. So has a machine that booted from an image of a disk.

// The file that such a memory maps privately. The memory is anonymous, and is found by this name in
// /proc/PID/maps, as a template's is.
#define SIZED_ZEROS "/dev/zero"

// Change cpus, memory_mb and disk_mb of `t`. Return the file that the memory maps privately, as a
// new string.
char *sized_apply(struct template *t, const char *template_dir, const struct machine_size *size);
// Tell whether the memory is the machine's own, not the template's.
bool sized_is_own(const char *memory);
// Call template_load and sized_apply. NULL on failure.
char *sized_load(struct template *t, const char *template_dir, const struct machine_size *size,
                 struct err *e);
