// SPDX-License-Identifier: Apache-2.0
// Fuzz the file of an image's pages, as a failing disk or a person may have damaged it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/drivers/microvm/image/page_file.h"

#define RAM_BYTES (64 * (uint64_t)PAGE_BYTES)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What is taken must be safe to follow: in the guest's memory, in order, and of what the file has.
static void follow(const struct page_file *f)
{
    uint64_t next = 0, pages = 0;
    for (size_t i = 0; i < f->range_count; i++) {
        const struct page_range *r = &f->ranges[i];
        if (r->first < next || r->count == 0 || r->first + r->count > RAM_BYTES / PAGE_BYTES)
            abort();
        next = r->first + r->count;
        pages += r->kind == PAGE_DATA ? r->count : 0;
    }
    if (f->data + pages * PAGE_BYTES > f->map + f->map_bytes)
        abort();
    volatile char sum = 0;
    for (uint64_t i = 0; i < pages; i++)
        sum = (char)(sum ^ f->data[i * PAGE_BYTES]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[32];
    if (fd < 0) {
        fd = memfd_create("pages", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0 ||
        fd_write_all(fd, data, size, NULL) != 0)
        abort();
    struct err e = ERR_INIT;
    struct page_file f;
    if (page_file_open(&f, path, RAM_BYTES, &e) == 0) {
        follow(&f);
        page_file_close(&f);
    } else if (!err_is(&e)) {
        abort();
    }
    return 0;
}
