// SPDX-License-Identifier: Apache-2.0
// The guest's memory as QEMU maps it: a private mapping of the template's memory file. The pages
// that the guest has written are its own; all others are the file's. Blocking: for a worker.
//
// /proc/PID/pagemap tells which pages are the guest's own: swapped pages, and present pages that
// are not of a file. The ioctl PAGEMAP_SCAN finds them in one call (Linux 6.7); older kernels need
// a read of the whole pagemap.
//
// The memory is written through /proc/PID/mem. A parent may open it, and so may a process that QEMU
// admits (spawn.h). Unlike a pid, the open file never refers to a later process. The memory is read
// by process_vm_readv(2), which reads many ranges at once in half the time. Afterwards a check
// shows that the pid still means the same process.
//
// Measured and tested under TCG. With KVM the guest's writes use the page tables of the same
// mapping (get_user_pages breaks the sharing there), so the same pages are found.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define GUEST_MEMORY_PARTS_MAX 16

struct guest_memory_part { // one mapping; the kernel may have split the memory into several
    uint64_t start;        // address in QEMU
    uint64_t bytes;
    uint64_t offset; // offset in the guest's memory
};

struct guest_memory {
    pid_t pid;
    int mem;      // /proc/PID/mem
    int pagemap;  // /proc/PID/pagemap
    bool no_scan; // the kernel has no PAGEMAP_SCAN
    uint64_t ram_bytes;
    struct guest_memory_part parts[GUEST_MEMORY_PARTS_MAX]; // ascending, without gaps
    int part_count;
};

// A range of pages, by number.
struct guest_span {
    uint64_t first;
    uint64_t count;
};

struct guest_pages {
    struct guest_span *spans; // owned; ascending
    size_t span_count;
    size_t room;
    uint64_t total; // pages
};

// Find the mapping of `file` in the process. ERR_UNAVAILABLE when it is missing or incomplete;
// ERR_DENIED when the host does not allow access.
int guest_memory_open(struct guest_memory *g, pid_t pid, const char *file, uint64_t ram_bytes,
                      struct err *e);
void guest_memory_close(struct guest_memory *g); // harmless after a failed open

// Find the guest's own pages at this moment. Replaces the contents of `out`; free them with
// guest_pages_fini.
int guest_memory_scan(struct guest_memory *g, struct guest_pages *out, struct err *e);
void guest_pages_fini(struct guest_pages *p);

// Read the spans one after another into `to`. ERR_INVALID unless each lies wholly in the guest's
// memory.
int guest_memory_read(const struct guest_memory *g, const struct guest_span *spans, size_t count,
                      char *to, struct err *e);
int guest_memory_write(const struct guest_memory *g, uint64_t first, uint64_t count,
                       const char *from, struct err *e);
