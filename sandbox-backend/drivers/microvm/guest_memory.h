// SPDX-License-Identifier: Apache-2.0
// The guest's memory as it lies in QEMU: a private mapping of the template's memory file. Pages
// that the guest has written are its own; all others are the file's. Blocking: for a worker.
//
// Which are its own is told by /proc/PID/pagemap: swapped, or present and not of a file. By the
// ioctl PAGEMAP_SCAN in one call (Linux 6.7), else by reading it all. Another process' memory is
// written through /proc/PID/mem, which a parent may, and who else the process lets (spawn.h); and
// which, unlike a number, never means another process later. It is read by process_vm_readv(2),
// which takes many places at once and half the time; that the number still means the same process
// is looked at after that.
//
// Measured and tested under TCG. With KVM the guest's writes go through the same mapping's page
// tables (get_user_pages breaks the sharing there), so that the same pages are told.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"

#define GUEST_MEMORY_PARTS_MAX 16

struct guest_memory_part { // one mapping; the kernel may have split it
    uint64_t start;        // address in QEMU
    uint64_t bytes;
    uint64_t offset; // in the guest's memory
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

// Pages by number.
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

// Finds the mapping of `file` in the process. ERR_UNAVAILABLE when it is not there as a whole;
// ERR_DENIED when the host does not let us look.
int guest_memory_open(struct guest_memory *g, pid_t pid, const char *file, uint64_t ram_bytes,
                      struct err *e);
void guest_memory_close(struct guest_memory *g); // harmless for one that failed to open

// The guest's own pages, of this moment. `out` is filled anew; guest_pages_fini.
int guest_memory_scan(struct guest_memory *g, struct guest_pages *out, struct err *e);
void guest_pages_fini(struct guest_pages *p);

// One span behind the other. Each must lie in the guest's memory as a whole, or ERR_INVALID.
int guest_memory_read(const struct guest_memory *g, const struct guest_span *spans, size_t count,
                      char *to, struct err *e);
int guest_memory_write(const struct guest_memory *g, uint64_t first, uint64_t count,
                       const char *from, struct err *e);
