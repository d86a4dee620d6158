// SPDX-License-Identifier: Apache-2.0
// The template's disk: an ext4 image made from a tree without mounting anything, and the overlay.
#include "sandbox-backend/drivers/microvm/image.h"

#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/rootfs.h"
#include "sandbox-backend/drivers/microvm/template.h"
#include "sandbox-backend/drivers/microvm/template_tool.h"

// No journal and no checksums: a sandbox's disk is never used again after a crash, and both cost
// time where every instruction is translated. Inode tables count as zeroed, which they are in a new
// file, so that the guest's kernel does not start to write them.
#define FEATURES "^has_journal,^metadata_csum"
#define EXTENDED "lazy_itable_init=0,assume_storage_prezeroed=1,nodiscard,root_owner=0:0"

// Under fakeroot one process tree must unpack and make the image: the owners exist only in it.
static const char FAKEROOT_SCRIPT[] =
    "set -eu; mkdir -p \"$2\"; tar -C \"$2\" -xf \"$1\"; shift 2; exec mke2fs \"$@\"";

static int run(const struct image_spec *spec, const char *const *argv, const char *package,
               struct err *e)
{
    struct tool tool = {.argv = argv,
                        .package = package,
                        .cwd = spec->build_dir,
                        .out = spec->log,
                        .log = spec->log,
                        .keep = spec->keep,
                        .tick = spec->tick,
                        .ctx = spec->ctx};
    return tool_run(&tool, e);
}

int image_make_disk(const struct image_spec *spec, struct err *e)
{
    char *size auto_free = str_printf("%lldM", (long long)spec->disk_mb);
    if (geteuid() == 0) {
        const char *argv[] = {"mke2fs", "-q", "-F",       "-t",          "ext4", "-b",     "4096",
                              "-m",     "0",  "-L",       "cubby",       "-O",   FEATURES, "-E",
                              EXTENDED, "-d", ROOTFS_DIR, TEMPLATE_DISK, size,   NULL};
        return run(spec, argv, "e2fsprogs", e);
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
    return run(spec, argv, "fakeroot", e);
}

int image_make_overlay(const struct image_spec *spec, struct err *e)
{
    char *size auto_free = str_printf("%lldM", (long long)spec->disk_mb);
    const char *argv[] = {"qemu-img", "create", "-q", "-f", "qcow2", TEMPLATE_OVERLAY, size, NULL};
    return run(spec, argv, "qemu-utils", e);
}
