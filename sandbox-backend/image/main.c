// SPDX-License-Identifier: Apache-2.0
// cubby-flatten: makes one archive of the layers of an image, or of a disk. A template
// build runs it in a jail, because both are hostile.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/image/disk.h"
#include "sandbox-backend/image/disk_check.h"
#include "sandbox-backend/image/fixup.h"
#include "sandbox-backend/image/layer.h"
#include "sandbox-backend/image/write.h"
#include "sandbox-backend/keys/sha256.h"

#define MEMORY_MAX (4ULL << 30)
#define DISK_BYTES (1LL << 40)

static struct {
    const char *disk, *directory, *user, *diff_ids;
    int64_t max_bytes;
    int64_t out_fd;
    bool check, help, version;
} options = {.max_bytes = DISK_BYTES, .out_fd = STDOUT_FILENO};

static const struct opt table[] = {
    {.name = "disk",
     .type = OPT_STRING,
     .value = &options.disk,
     .arg = "FILE",
     .help = "read this ext4 file system instead of layers"},
    {.name = "check",
     .type = OPT_FLAG,
     .value = &options.check,
     .help = "with --disk: only check that a guest could run from it"},
    {.name = "directory",
     .type = OPT_STRING,
     .value = &options.directory,
     .arg = "PATH",
     .help = "make this directory in an image, if it is missing"},
    {.name = "user",
     .type = OPT_STRING,
     .value = &options.user,
     .arg = "USER[:GROUP]",
     .help = "fail if an image, or with --check a disk, lacks this user"},
    {.name = "diff-ids",
     .type = OPT_STRING,
     .value = &options.diff_ids,
     .arg = "HEX,...",
     .help = "SHA-256 of the first layers, unpacked; fail if one differs"},
    {.name = "max-bytes",
     .type = OPT_SIZE,
     .value = &options.max_bytes,
     .arg = "SIZE",
     .help = "what the layers may unpack to"},
    {.name = "out-fd",
     .type = OPT_INT,
     .value = &options.out_fd,
     .arg = "FD",
     .help = "descriptor for the archive (default 1)",
     .max = INT16_MAX},
    {.name = "help", .type = OPT_FLAG, .value = &options.help, .help = "print this and exit"},
    {.name = "version", .type = OPT_FLAG, .value = &options.version, .help = "print the version"},
};

static int write_layer(int source, struct tree_inode *const *wanted, struct archive *out, void *ctx,
                       struct err *e)
{
    char *const *paths = ctx;
    return layer_write_files(paths[source - 1], source, wanted, out, e);
}

// Copy the next digest of the list, and move on in it. Return false at the end.
static bool next_digest(const char **list, char hex[SHA256_HEX_CHARS + 1])
{
    size_t len = *list ? strcspn(*list, ",") : 0;
    if (!len)
        return false;
    snprintf(hex, SHA256_HEX_CHARS + 1, "%.*s", (int)len, *list);
    *list += len + ((*list)[len] == ',');
    return true;
}

static int flatten_layers(int count, char **paths, struct err *e)
{
    struct tree t;
    struct layer_limits limits = {.bytes = options.max_bytes, .entries = LAYER_ENTRIES_MAX};
    const char *digests = options.diff_ids;
    int result = 0;
    tree_init(&t);
    for (int i = 0; result == 0 && i < count; i++) {
        char hex[SHA256_HEX_CHARS + 1];
        const char *digest = next_digest(&digests, hex) ? hex : NULL;
        result = layer_read(&t, paths[i], i + 1, digest, &limits, e);
    }
    if (result == 0)
        result = fixup_apply(&t, options.user, options.directory, e);
    if (result == 0)
        result = write_tree(&t, (int)options.out_fd, count, write_layer, paths, e);
    tree_fini(&t);
    return result;
}

static int check_disk(struct err *e)
{
    struct disk *d = disk_open(options.disk, e);
    int result = d ? disk_check(d, options.user, e) : -1;
    if (d)
        disk_close(d);
    return result;
}

static int flatten_disk(struct err *e)
{
    struct tree t;
    struct disk *d = disk_open(options.disk, e);
    if (!d)
        return -1;
    tree_init(&t);
    int result = disk_read(d, &t, options.max_bytes, e);
    if (result == 0)
        result = write_tree(&t, (int)options.out_fd, DISK_SOURCE, disk_write_files, d, e);
    tree_fini(&t);
    disk_close(d);
    return result;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    const struct rlimit memory = {.rlim_cur = MEMORY_MAX, .rlim_max = MEMORY_MAX};
    int parsed = opts_parse(table, ARRAY_LEN(table), &argc, argv, false, &e);
    if (parsed == 0 && options.help) {
        puts("Usage: cubby-flatten [OPTIONS] LAYER...\n"
             "Writes one tar archive of the layers of an image, the lowest first, or of a disk.\n");
        opts_help(stdout, table, ARRAY_LEN(table));
        return 0;
    }
    if (parsed == 0 && options.version) {
        puts("cubby-flatten " CUBBY_VERSION);
        return 0;
    }
#ifndef __SANITIZE_ADDRESS__
    setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory;
#endif
    if (parsed == 0 && !options.disk && argc < 2)
        parsed = err_set(&e, ERR_INVALID, "name the layers, or --disk: see cubby-flatten --help");
    if (parsed == 0)
        parsed = !options.disk   ? flatten_layers(argc - 1, argv + 1, &e)
                 : options.check ? check_disk(&e)
                                 : flatten_disk(&e);
    if (parsed == 0)
        return 0;
    fprintf(stderr, "cubby-flatten: %s\n", e.msg);
    return 1;
}
