// SPDX-License-Identifier: Apache-2.0
// A template on the disk: what `cubby template build` leaves and the microvm driver restores from.
//
//   <home>/templates/<name>/
//     template.json       the facts below
//     memory              the guest's RAM, mapped private by every sandbox, never read as a whole
//     vmstate             QEMU's migration stream without the RAM (x-ignore-shared)
//     disk.ext4           the disk as it was at the snapshot; read-only from then on
//     overlay.qcow2       empty, of the disk's size; copied for each sandbox
//     vmlinuz, initramfs.cpio, packages.txt, build.log
//     .build-<name>-*     beside it: a build in progress (its directory is locked with flock)
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define TEMPLATE_FORMAT   1
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
    char *envd_version;
    int64_t memory_mb;
    int64_t cpus;
    int64_t disk_mb;
    bool python;     // it has the Python kernel
    bool disk_grows; // its envd can be told of a larger disk; older ones cannot
    bool gives_back; // its guest tells which memory is free, by a device that older ones lack
};

void template_fini(struct template *t); // frees the members; leaves it empty

// Reads <dir>/template.json. ERR_NOT_FOUND with what to do when it is not there, ERR_INVALID when
// it is not one that this program wrote. `t` is empty on failure.
int template_load(const char *dir, struct template *t, struct err *e);
int template_save(const char *dir, const struct template *t, struct err *e);

// [a-z0-9][a-z0-9._-]*, at most TEMPLATE_NAME_MAX.
bool template_name_ok(const char *name);
// New string: <home>/templates/<name>.
char *template_dir(const char *home, const char *name);

// Calls for each whole template of <home>, by name; a directory without a readable template.json is
// passed to `bad` (may be NULL). Stops when `each` returns non-zero, and returns that.
int template_list(const char *home,
                  int (*each)(const struct template *t, const char *dir, void *ctx),
                  void (*bad)(const char *name, const struct err *why, void *ctx), void *ctx,
                  struct err *e);

// The snapshots that need it, "snap-a, snap-b ..."; new string, NULL when there is none.
char *template_snapshots(const char *home, const char *name);
// The same of hibernated sandboxes: they can be woken only with the template as it is.
char *template_hibernated(const char *home, const char *name);
// Removes a template. ERR_CONFLICT, naming some, when a sandbox's sandbox.json or a snapshot's
// snapshot.json says that it needs it, unless `force` (running sandboxes keep their open files;
// they cannot be adopted again, hibernated ones not woken, and no snapshot of it used).
int template_remove(const char *home, const char *name, bool force, struct err *e);
