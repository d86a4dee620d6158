// SPDX-License-Identifier: Apache-2.0
// The template's base disk and its overlay.
#include "sandbox-backend/template/base_disk.h"

#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/drivers/microvm/image/template.h"
#include "sandbox-backend/template/rootfs.h"

// No journal and no checksums: a sandbox's disk is never used again after a crash, and both cost
// time under emulation. The inode tables are declared zeroed, as they are in a new file, so that
// the guest kernel does not write them.
#define FEATURES "^has_journal,^metadata_csum"
#define EXTENDED "lazy_itable_init=0,assume_storage_prezeroed=1,nodiscard,root_owner=0:0"

// Under fakeroot, one process tree must both unpack the archive and make the file system, because
// the file owners exist only inside that process tree.
static const char FAKEROOT_SCRIPT[] =
    "set -eu; mkdir -p \"$2\"; tar -C \"$2\" -xf \"$1\" " ROOTFS_TAR_OPTIONS
    "; shift 2; exec mke2fs \"$@\"";

int base_disk_make(const struct base_disk_spec *spec, struct err *e)
{
    char *size auto_free = str_printf("%lldM", (long long)spec->disk_mb);
    if (geteuid() == 0) {
        const char *argv[] = {"mke2fs", "-q", "-F",       "-t",          "ext4", "-b",     "4096",
                              "-m",     "0",  "-L",       "cubby",       "-O",   FEATURES, "-E",
                              EXTENDED, "-d", ROOTFS_DIR, TEMPLATE_DISK, size,   NULL};
        return tool_run_like(&spec->tool, argv, "e2fsprogs", e);
    }
    char *mke2fs auto_free = tool_find("mke2fs", "e2fsprogs", e);
    if (!mke2fs)
        return -1;
    const char *argv[] = {"fakeroot", "--",       "sh",       "-c",       FAKEROOT_SCRIPT,
                          "sh",       ROOTFS_TAR, ROOTFS_DIR, "-q",       "-F",
                          "-t",       "ext4",     "-b",       "4096",     "-m",
                          "0",        "-L",       "cubby",    "-O",       FEATURES,
                          "-E",       EXTENDED,   "-d",       ROOTFS_DIR, TEMPLATE_DISK,
                          size,       NULL};
    return tool_run_like(&spec->tool, argv, "fakeroot", e);
}

int base_disk_make_overlay(const struct base_disk_spec *spec, struct err *e)
{
    char *size auto_free = str_printf("%lldM", (long long)spec->disk_mb);
    const char *argv[] = {"qemu-img", "create", "-q", "-f", "qcow2", TEMPLATE_OVERLAY, size, NULL};
    return tool_run_like(&spec->tool, argv, "qemu-utils", e);
}
