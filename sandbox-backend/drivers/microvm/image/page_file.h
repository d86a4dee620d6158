// SPDX-License-Identifier: Apache-2.0
// The file `pages` of an image: the pages of a guest's memory that differ from the template's.
//
// Numbers are little-endian. The file has three parts:
// - a header of one page (struct page_file_header, the rest zero);
// - the contents of all pages that are not zero, one after another;
// - the ranges, in ascending order and without overlap, each of pages with contents or of zero
//   pages. The end of the last range is the end of the file.
// The header is written last, so an unfinished file has none.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define PAGE_BYTES      4096
#define PAGE_FILE_MAGIC "cubbypg1"

enum page_kind {
    PAGE_DATA, // the next contents in the file belong to the range
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
    uint64_t first; // number of the first page in the guest's memory
    uint32_t count;
    uint32_t kind;
};

// ---- writing. Blocking

struct page_writer;
// Create the file `path`. NULL on failure.
struct page_writer *page_writer_open(const char *path, uint64_t ram_bytes, struct err *e);
// Add pages, in ascending order. `data` must stay valid until page_writer_flush or _finish.
int page_writer_add(struct page_writer *w, uint64_t first, size_t count, const char *data,
                    struct err *e);
int page_writer_flush(struct page_writer *w, struct err *e);
int page_writer_finish(struct page_writer *w, struct err *e); // completes the file, without a sync
void page_writer_close(struct page_writer *w);                // frees the writer; NULL is fine

// ---- reading. Blocking

struct page_file {
    struct page_range *ranges; // owned
    size_t range_count;
    // The mapped file. For a page that cannot be read, a system call fails with EFAULT, but an
    // access by this process causes SIGBUS. So the code only passes the pages to system calls.
    char *map;
    size_t map_bytes;
    const char *data; // points into `map`
};

// Open the file and check everything but the contents. ERR_INVALID when the file is damaged or
// belongs to a memory of another size.
int page_file_open(struct page_file *f, const char *path, uint64_t ram_bytes, struct err *e);
void page_file_close(struct page_file *f); // harmless for a zeroed struct
