// SPDX-License-Identifier: Apache-2.0
// The file `pages` of an image: those pages of a guest's memory that are its own.
//
// Numbers are little-endian. A header of one page (struct page_file_header, the rest zero); the
// contents of all pages that are not zero, one after the other; then the ranges, ascending and
// apart from each other, each of pages with contents or of zero pages. The end of the last range is
// the end of the file. The header is written last: a file that was not finished has none.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define PAGE_BYTES      4096
#define PAGE_FILE_MAGIC "cubbypg1"

enum page_kind {
    PAGE_DATA, // its contents are the next of the file
    PAGE_ZERO,
};

struct page_file_header {
    char magic[8];
    uint32_t page_bytes;
    uint32_t unused;
    uint64_t ram_bytes;
    uint64_t data_pages;
    uint64_t range_count;
};

struct page_range {
    uint64_t first; // number of its first page in the guest's memory
    uint32_t count;
    uint32_t kind;
};

// ---- writing. Blocking

struct page_writer;
// Makes `path`. NULL on failure.
struct page_writer *page_writer_open(const char *path, uint64_t ram_bytes, struct err *e);
// Ascending. `data` has to stay until page_writer_flush or _finish.
int page_writer_add(struct page_writer *w, uint64_t first, size_t count, const char *data,
                    struct err *e);
int page_writer_flush(struct page_writer *w, struct err *e);
int page_writer_finish(struct page_writer *w, struct err *e); // whole; not synced
void page_writer_close(struct page_writer *w);                // frees; NULL is fine

// ---- reading. Blocking

struct page_file {
    struct page_range *ranges; // owned
    size_t range_count;
    // The mapped file. A page of it that cannot be read is EFAULT to system calls, and SIGBUS to
    // us: it is only handed on.
    char *map;
    size_t map_bytes;
    const char *data; // in `map`
};

// Checks all but the contents. ERR_INVALID when it is damaged or of a memory of another size.
int page_file_open(struct page_file *f, const char *path, uint64_t ram_bytes, struct err *e);
void page_file_close(struct page_file *f); // harmless for one that is zeroed
