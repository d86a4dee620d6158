// SPDX-License-Identifier: Apache-2.0
// The part of a machine's saving that QEMU does not do: the guest's own pages, which are copied
// during the standstill and written later, and the file that the clusters of the disk are copied
// to. Blocking: for a worker, one call after another.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/image/guest_memory.h"
#include "sandbox-backend/drivers/microvm/image/page_file.h"
#include "sandbox-backend/drivers/microvm/image/template.h"

struct save_files {
    const char *dir;          // the image's directory. Borrowed, as the next two
    const char *template_dir; //
    const char *overlay;      // the machine's disk
    struct machine_size size; // the machine's size; 0: the template's
    pid_t qemu;
    bool guest_waits; // while its pages are read; false: it runs meanwhile
    bool disk_only;   // leave out the memory and the devices
    bool sync;
    // Results of the calls below.
    struct template template;
    int disk;    // this and the next: open files that QEMU writes
    int devices; //
    struct guest_memory memory;
    struct guest_pages pages; // the guest's own pages at the standstill
    struct page_writer *writer;
    char *buffer; // mapped
    uint64_t buffer_pages;
    struct guest_span *pieces; // owned: the pages in the buffer, one after another
    size_t piece_count;
    size_t piece_room;
    int64_t disk_bytes; // the disk's size as the guest sees it
    int64_t bytes;      // size of the whole image
};

// Step 1, while the guest still runs: find its memory, and make the buffer and the files.
int save_files_prepare(struct save_files *s, struct err *e);
// Close the two files that QEMU writes. Call it once QEMU has them.
void save_files_given(struct save_files *s);
// Step 2, during the standstill: copy the guest's pages. Pages that do not fit into the buffer are
// written at once; for a machine that stood still before, those are most.
int save_files_read(struct save_files *s, struct err *e);
// Step 3, when the guest runs again: write the copied pages.
int save_files_write(struct save_files *s, struct err *e);
// Step 4, when all files are complete: make an image of them.
int save_files_seal(struct save_files *s, struct err *e);
void save_files_fini(struct save_files *s);
