// SPDX-License-Identifier: Apache-2.0
// The part of a machine's saving that is not QEMU's: its own pages, copied while it stands still,
// written later; and the file that its disk's clusters are copied to. Blocking: for a worker, one
// call after the other.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/guest_memory.h"
#include "sandbox-backend/drivers/microvm/page_file.h"
#include "sandbox-backend/drivers/microvm/template.h"

struct save_files {
    const char *dir;          // of the image. Borrowed, as what follows
    const char *template_dir; //
    const char *overlay;      // the machine's disk
    struct machine_size size; // of the machine; 0: the template's
    pid_t qemu;
    bool guest_waits; // while its pages are read: it runs otherwise
    bool sync;
    // What is made of it.
    struct template template;
    int disk;    // the files that QEMU writes, open for it
    int devices; //
    struct guest_memory memory;
    struct guest_pages pages; // its own, of the standstill
    struct page_writer *writer;
    char *buffer; // mapped
    uint64_t buffer_pages;
    struct guest_span *pieces; // owned: what the buffer holds, one behind the other
    size_t piece_count;
    size_t piece_room;
    int64_t disk_bytes; // as the guest sees its disk
    int64_t bytes;      // of the whole image
};

// 1. The guest runs on: finds its memory, makes room for it and the files.
int save_files_prepare(struct save_files *s, struct err *e);
// QEMU has the two that it writes.
void save_files_given(struct save_files *s);
// 2. It stands still: copies its pages. What there is no room for is written at once; of one that
// stood still before, that is most of them.
int save_files_read(struct save_files *s, struct err *e);
// 3. It runs again: writes them.
int save_files_write(struct save_files *s, struct err *e);
// 4. All files are there: makes an image of them.
int save_files_seal(struct save_files *s, struct err *e);
void save_files_fini(struct save_files *s);
