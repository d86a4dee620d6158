// SPDX-License-Identifier: Apache-2.0
// The kernel modules that a guest needs, in the order of loading.
#include "sandbox-backend/template/initramfs_modules.h"

#include <errno.h>
#include <fts.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/template/initramfs.h"

#define MODULE_BYTES_MAX  (32 * 1024 * 1024)
#define DEPENDS_DEEPEST   16
#define TREE_MODULES_MAX  20000
#define MODULE_NAME_BYTES 64

// Drivers for the machine's devices, and features that programs in a sandbox ask the guest kernel
// for. The guest's disk has no modules, so a module that is missing here cannot be loaded later.
static const char *const WANTED[] = {
    "virtio_mmio", "virtio_blk", "virtio_net", "virtio_rng", "virtio_balloon",
    "ext4",        "af_packet",  "overlay",    "fuse",       "tun",
};

// What Docker's engine and others like it ask for: bridges, and the packet filter by nftables and
// by the older interface.
#define EXTRA_DOCKER "docker"
static const char *const DOCKER[] = {
    "bridge",          "br_netfilter",    "veth",
    "nf_tables",       "nft_compat",      "nft_chain_nat",
    "nft_ct",          "nft_masq",        "nft_nat",
    "nft_reject_inet", "nft_fib_inet",    "nf_conntrack_netlink",
    "xt_addrtype",     "xt_comment",      "xt_conntrack",
    "xt_limit",        "xt_mark",         "xt_MASQUERADE",
    "xt_multiport",    "xt_nat",          "xt_REDIRECT",
    "xt_set",          "ip_set_hash_net", "xt_tcpudp",
    "iptable_filter",  "iptable_nat",     "ip6table_filter",
    "ip6table_nat",    "ipt_REJECT",      "ip6t_REJECT",
};

bool initramfs_modules_is_extra(const char *name)
{
    return str_eq(name, EXTRA_DOCKER);
}

// All module files of the tree, sorted by name.
struct tree {
    struct tree_file {
        char name[MODULE_NAME_BYTES];
        char *path; // owned
    } * files;
    size_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct tree_file *)a)->name, ((const struct tree_file *)b)->name);
}

static void tree_fini(struct tree *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->files[i].path);
    free(t->files);
    *t = (struct tree){0};
}

// Normalise a module name: '-' and '_' are the same. Return false when it is too long for a name.
static bool normal_name(char out[MODULE_NAME_BYTES], const char *name, size_t len)
{
    if (len == 0 || len >= MODULE_NAME_BYTES)
        return false;
    for (size_t i = 0; i < len; i++)
        out[i] = name[i] == '-' ? '_' : name[i];
    out[len] = '\0';
    return true;
}

// Derive the module name from the file name: "virtio-rng.ko.xz" -> "virtio_rng". Return false for a
// file that is not a module.
static bool module_name(char out[MODULE_NAME_BYTES], const char *file)
{
    const char *end = strstr(file, ".ko");
    if (!end || (!str_eq(end, ".ko") && !str_eq(end, ".ko.xz") && !str_eq(end, ".ko.zst")))
        return false;
    return normal_name(out, file, (size_t)(end - file));
}

static int tree_read(struct tree *t, const char *dir, struct err *e)
{
    char *path auto_free = xstrdup(dir);
    char *paths[] = {path, NULL};
    FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (!fts)
        return err_sys(e, errno, "read %s", dir);
    errno = 0; // fts_read returns NULL at the end, and for an error with errno
    for (FTSENT *f; t->count < TREE_MODULES_MAX && (f = fts_read(fts)); errno = 0) {
        struct tree_file file;
        if (f->fts_info != FTS_F || !module_name(file.name, f->fts_name))
            continue;
        if ((t->count & (t->count - 1)) == 0) // the array is full at each power of two
            t->files = xrealloc(t->files, (t->count ? 2 * t->count : 1) * sizeof(*t->files));
        file.path = xstrdup(f->fts_path);
        t->files[t->count++] = file;
    }
    int error = t->count < TREE_MODULES_MAX ? errno : 0;
    fts_close(fts);
    if (error)
        return err_sys(e, error, "read %s", dir);
    if (t->count == 0)
        return err_set(e, ERR_NOT_FOUND, "there are no kernel modules in %s", dir);
    qsort(t->files, t->count, sizeof(*t->files), by_name);
    return 0;
}

static int read_image(const char *path, struct buf *out, struct err *e)
{
    if (str_ends(path, ".ko"))
        return file_read(path, MODULE_BYTES_MAX, out, e);
    bool xz = str_ends(path, ".xz");
    const char *argv[] = {xz ? "xz" : "zstd", "-dc", path, NULL};
    return tool_output(argv, xz ? "xz-utils" : "zstd", MODULE_BYTES_MAX, out, e);
}

static bool has(const struct initramfs_modules *set, const char *name)
{
    for (int i = 0; i < set->count; i++)
        if (str_eq(set->items[i].name, name))
            return true;
    return false;
}

static int add(struct initramfs_modules *set, const struct tree *t, const char *name, int depth,
               struct err *e);

// Add the modules that `depends` lists. The list is separated by commas, and may be empty.
static int add_depends(struct initramfs_modules *set, const struct tree *t, const char *depends,
                       int depth, struct err *e)
{
    char *list auto_free = xstrdup(depends ? depends : "");
    char *rest = list;
    for (char *name; (name = strsep(&rest, ","));)
        if (*name && add(set, t, name, depth + 1, e) < 0)
            return -1;
    return 0;
}

static int add(struct initramfs_modules *set, const struct tree *t, const char *name, int depth,
               struct err *e)
{
    struct tree_file key = {0};
    if (!normal_name(key.name, name, strlen(name)) || has(set, key.name))
        return 0;
    const struct tree_file *file =
        !t->count ? NULL : bsearch(&key, t->files, t->count, sizeof(key), by_name);
    if (!file)
        return 0;
    if (depth > DEPENDS_DEEPEST)
        return err_set(e, ERR_INVALID, "module %s depends on itself", name);
    struct buf image auto_buf = BUF_INIT;
    if (read_image(file->path, &image, e) < 0 ||
        add_depends(set, t, initramfs_modinfo(image.data, image.len, "depends"), depth, e) < 0)
        return -1;
    if (set->count == INITRAMFS_MODULES_MAX)
        return err_set(e, ERR_LIMIT, "more than %d kernel modules", INITRAMFS_MODULES_MAX);
    set->items[set->count++] = (struct initramfs_module){xstrdup(key.name), image};
    image = BUF_INIT;
    return 0;
}

int initramfs_modules_load(struct initramfs_modules *set, const char *dir, const char *extra,
                           struct err *e)
{
    struct tree t = {0};
    int result = tree_read(&t, dir, e);
    for (size_t i = 0; result == 0 && i < ARRAY_LEN(WANTED); i++)
        result = add(set, &t, WANTED[i], 0, e);
    for (size_t i = 0; result == 0 && str_eq(extra, EXTRA_DOCKER) && i < ARRAY_LEN(DOCKER); i++)
        result = add(set, &t, DOCKER[i], 0, e);
    tree_fini(&t);
    if (result < 0)
        initramfs_modules_fini(set);
    return result;
}

void initramfs_modules_fini(struct initramfs_modules *set)
{
    for (int i = 0; i < set->count; i++) {
        free(set->items[i].name);
        buf_fini(&set->items[i].image);
    }
    set->count = 0;
}
