// SPDX-License-Identifier: Apache-2.0
// The guest's initramfs: Cubby's init and envd, and the kernel modules they need.
#include "sandbox-backend/template/initramfs.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/template/initramfs_modules.h"

#define PROGRAM_BYTES_MAX (64 * 1024 * 1024)

static void pad(struct buf *out)
{
    static const char ZEROS[4] = {0};
    if (out->len % 4)
        buf_add(out, ZEROS, 4 - out->len % 4);
}

void initramfs_add(struct buf *out, const struct initramfs_entry *entry, uint32_t ino)
{
    size_t name_size = strlen(entry->name) + 1;
    // The fields: magic, ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor,
    // rdevmajor, rdevminor, namesize, check.
    buf_printf(out, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", ino,
               (unsigned)entry->mode, 0U, 0U, 1U, 0U, (unsigned)entry->len, 0U, 0U,
               entry->rdev_major, entry->rdev_minor, (unsigned)name_size, 0U);
    buf_add(out, entry->name, name_size);
    pad(out);
    buf_add(out, entry->data, entry->len);
    pad(out);
}

void initramfs_end(struct buf *out)
{
    initramfs_add(out, &(struct initramfs_entry){.name = "TRAILER!!!"}, 0);
}

const char *initramfs_modinfo(const void *image, size_t len, const char *key)
{
    char wanted[64];
    int n = snprintf(wanted, sizeof(wanted), "%c%s=", '\0', key);
    const char *at = len ? memmem(image, len, wanted, (size_t)n) : NULL;
    if (!at)
        return NULL;
    at += n;
    size_t left = len - (size_t)(at - (const char *)image);
    return memchr(at, '\0', left) ? at : NULL;
}

struct archive {
    struct buf bytes;
    uint32_t ino;
};

static void add(struct archive *a, const struct initramfs_entry *entry)
{
    initramfs_add(&a->bytes, entry, ++a->ino);
}

static int add_program(struct archive *a, const char *name, const char *path, struct err *e)
{
    struct buf data auto_buf = BUF_INIT;
    if (file_read(path, PROGRAM_BYTES_MAX, &data, e) < 0)
        return -1;
    add(a, &(struct initramfs_entry){
               .name = name, .mode = S_IFREG | 0755, .data = data.data, .len = data.len});
    return 0;
}

// Add the directories and device nodes that the guest kernel and init expect. The console must
// exist before /dev is mounted; otherwise init would start without any descriptor.
static void add_skeleton(struct archive *a)
{
    static const char *const DIRS[] = {"dev", "proc", "sys", "disk"};
    for (size_t i = 0; i < ARRAY_LEN(DIRS); i++)
        add(a, &(struct initramfs_entry){.name = DIRS[i], .mode = S_IFDIR | 0755});
    add(a, &(struct initramfs_entry){
               .name = "dev/console", .mode = S_IFCHR | 0600, .rdev_major = 5, .rdev_minor = 1});
    add(a, &(struct initramfs_entry){
               .name = "dev/null", .mode = S_IFCHR | 0666, .rdev_major = 1, .rdev_minor = 3});
}

static void add_modules(struct archive *a, const struct initramfs_modules *set, struct buf *names)
{
    struct buf order auto_buf = BUF_INIT;
    if (set->count == 0)
        return;
    add(a, &(struct initramfs_entry){.name = "modules", .mode = S_IFDIR | 0755});
    for (int i = 0; i < set->count; i++) {
        const struct initramfs_module *m = &set->items[i];
        char *path auto_free = str_printf("modules/%s.ko", m->name);
        add(a,
            &(struct initramfs_entry){
                .name = path, .mode = S_IFREG | 0644, .data = m->image.data, .len = m->image.len});
        buf_printf(&order, "%s.ko\n", m->name);
        if (names)
            buf_printf(names, "%s\n", m->name);
    }
    add(a,
        &(struct initramfs_entry){
            .name = "modules/load", .mode = S_IFREG | 0644, .data = order.data, .len = order.len});
}

static int fill(struct archive *a, const struct initramfs_spec *spec, struct buf *names,
                struct err *e)
{
    struct initramfs_modules set = {0};
    add_skeleton(a);
    if (add_program(a, "init", spec->init, e) < 0 || add_program(a, "envd", spec->envd, e) < 0)
        return -1;
    if (spec->modules_dir &&
        initramfs_modules_load(&set, spec->modules_dir, spec->extra_modules, e) < 0)
        return -1;
    add_modules(a, &set, names);
    initramfs_modules_fini(&set);
    initramfs_end(&a->bytes);
    return 0;
}

int initramfs_build(const struct initramfs_spec *spec, struct buf *modules, struct err *e)
{
    struct archive a = {0};
    int result = fill(&a, spec, modules, e);
    if (result == 0)
        result = file_replace(spec->out, a.bytes.data, a.bytes.len, 0644, e);
    buf_fini(&a.bytes);
    return result < 0 ? err_wrap(e, "initramfs") : 0;
}
