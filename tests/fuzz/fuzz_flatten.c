// SPDX-License-Identifier: Apache-2.0
// Fuzz the layers of an image: two layers, or a disk. Whatever is accepted becomes an archive whose
// paths stay inside, each below a directory that comes before it.
#include <archive.h>
#include <archive_entry.h>
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/image/fixup.h"
#include "sandbox-backend/image/layer.h"
#include "sandbox-backend/image/write.h"

#define BYTES_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int memory_file(const void *data, size_t size, char path[32])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    assert(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static int write_layer(int source, struct tree_inode *const *wanted, struct archive *out, void *ctx,
                       struct err *e)
{
    char(*paths)[32] = ctx;
    return layer_write_files(paths[source - 1], source, wanted, out, e);
}

static void check(const char *path)
{
    struct archive *a = archive_read_new();
    struct archive_entry *entry;
    archive_read_support_format_tar(a);
    archive_read_set_options(a, "hdrcharset=BINARY");
    assert(archive_read_open_filename(a, path, 65536) == ARCHIVE_OK);
    while (archive_read_next_header(a, &entry) == ARCHIVE_OK) {
        const char *name = archive_entry_pathname(entry);
        char *whole auto_free = str_printf("/%s/", name);
        unsigned type = archive_entry_filetype(entry);
        assert(*name && *name != '/' && !strstr(whole, "/../"));
        assert(type != AE_IFCHR && type != AE_IFBLK && type != AE_IFSOCK);
    }
    archive_read_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char paths[2][32], result[32];
    size_t half = size / 1024 * 512;
    int first auto_close = memory_file(data, half, paths[0]);
    int second auto_close = memory_file(data + half, size - half, paths[1]);
    int out auto_close = memory_file("", 0, result);
    struct layer_limits limits = {.bytes = BYTES_MAX, .entries = 10000};
    struct err e = ERR_INIT, ignored = ERR_INIT;
    struct tree t;
    tree_init(&t);
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = layer_read(&t, paths[i], i + 1, NULL, &limits, &e);
    assert(rc == 0 || err_is(&e));
    (void)fixup_apply(&t, "app:7", "/app/x",
                      &ignored); // an image without a shell is written here, too
    if (rc == 0 && write_tree(&t, out, 2, write_layer, paths, &e) == 0)
        check(result);
    tree_fini(&t);
    return 0;
}
