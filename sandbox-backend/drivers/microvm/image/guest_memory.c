// SPDX-License-Identifier: Apache-2.0
// The guest's memory as QEMU maps it.
#include "sandbox-backend/drivers/microvm/image/guest_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/page_file.h"

#define ENTRIES_AT_ONCE 8192 // entries of pagemap
#define REGIONS_AT_ONCE 512  // regions of PAGEMAP_SCAN
#define SPANS_FIRST     1024

// Bits of an entry of pagemap (Documentation/admin-guide/mm/pagemap.rst of Linux).
#define ENTRY_PRESENT (1ULL << 63)
#define ENTRY_SWAPPED (1ULL << 62)
#define ENTRY_FILE    (1ULL << 61)

// PAGEMAP_SCAN (the same document). Declared here because headers before Linux 6.7 lack it.
struct scan_region {
    uint64_t start;
    uint64_t end;
    uint64_t categories;
};
struct scan_arg {
    uint64_t size;
    uint64_t flags;
    uint64_t start;
    uint64_t end;
    uint64_t walk_end; // where the scan stopped
    uint64_t vec;
    uint64_t vec_len;
    uint64_t max_pages;
    uint64_t category_inverted;
    uint64_t category_mask;
    uint64_t category_anyof_mask;
    uint64_t return_mask;
};
#define SCAN_REQUEST _IOWR('f', 16, struct scan_arg)
#define SCAN_FILE    (1 << 2)
#define SCAN_PRESENT (1 << 3)
#define SCAN_SWAPPED (1 << 4)

// ---- the mapping

// Tell whether a line of /proc/PID/maps is a private, writable mapping of the file. Some file
// systems (btrfs, overlayfs) show another device there than stat does: then the file's name
// decides.
static bool is_ours(const char *line, const char *path, const struct stat *file,
                    struct guest_memory_part *out)
{
    uint64_t start, end, offset, number;
    unsigned major_number, minor_number;
    char mode[5];
    int at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &start, &end,
               mode, &offset, &major_number, &minor_number, &number, &at) != 7 ||
        strncmp(mode, "rw", 2) != 0 || mode[3] != 'p' || end <= start)
        return false;
    *out = (struct guest_memory_part){.start = start, .bytes = end - start, .offset = offset};
    const char *name = at ? line + at : "";
    bool same_device = makedev(major_number, minor_number) == file->st_dev;
    return (same_device && number == file->st_ino) ||
           (strncmp(name, path, strlen(path)) == 0 && strchr("\n", name[strlen(path)]));
}

static int find_parts(struct guest_memory *g, FILE *maps, const char *file, struct err *e)
{
    char *path auto_free = realpath(file, NULL);
    char *line auto_free = NULL;
    size_t room = 0;
    struct stat st;
    uint64_t have = 0;
    if (!path || stat(path, &st) != 0)
        return err_sys(e, errno, "find %s", file);
    while (have < g->ram_bytes && getline(&line, &room, maps) > 0) {
        struct guest_memory_part part;
        if (!is_ours(line, path, &st, &part) || part.offset != have ||
            g->part_count == GUEST_MEMORY_PARTS_MAX)
            continue;
        part.bytes = part.bytes < g->ram_bytes - have ? part.bytes : g->ram_bytes - have;
        g->parts[g->part_count++] = part;
        have += part.bytes;
    }
    if (have < g->ram_bytes)
        return err_set(e, ERR_UNAVAILABLE, "QEMU has not mapped %s as the guest's memory", file);
    return 0;
}

static int open_proc(pid_t pid, const char *name, int flags, struct err *e)
{
    char *path auto_free = str_printf("/proc/%d/%s", (int)pid, name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        err_sys(e, errno, "open %s, the memory of a sandbox's QEMU", path);
    return fd;
}

int guest_memory_open(struct guest_memory *g, pid_t pid, const char *file, uint64_t ram_bytes,
                      struct err *e)
{
    *g = (struct guest_memory){.pid = pid, .mem = -1, .pagemap = -1, .ram_bytes = ram_bytes};
    int fd = open_proc(pid, "maps", O_RDONLY, e);
    FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
    if (!maps) {
        mem_close_fd(&fd);
        return err_set(e, ERR_UNAVAILABLE, "the memory of process %d cannot be found", (int)pid);
    }
    int result = find_parts(g, maps, file, e);
    fclose(maps);
    g->mem = result == 0 ? open_proc(pid, "mem", O_RDWR, e) : -1;
    g->pagemap = g->mem >= 0 ? open_proc(pid, "pagemap", O_RDONLY, e) : -1;
    if (g->pagemap >= 0)
        return 0;
    guest_memory_close(g);
    return -1;
}

void guest_memory_close(struct guest_memory *g)
{
    mem_close_fd(&g->mem);
    mem_close_fd(&g->pagemap);
    g->mem = g->pagemap = -1;
}

// ---- the guest's own pages

void guest_pages_fini(struct guest_pages *p)
{
    free(p->spans);
    *p = (struct guest_pages){0};
}

static void add_span(struct guest_pages *p, uint64_t first, uint64_t count)
{
    struct guest_span *last = p->span_count ? &p->spans[p->span_count - 1] : NULL;
    p->total += count;
    if (last && last->first + last->count == first) {
        last->count += count;
        return;
    }
    if (p->span_count == p->room) {
        p->room = p->room ? 2 * p->room : SPANS_FIRST;
        p->spans = xrealloc(p->spans, p->room * sizeof *p->spans);
    }
    p->spans[p->span_count++] = (struct guest_span){.first = first, .count = count};
}

// Return 1 when this kernel does not have the ioctl.
static int scan_part(const struct guest_memory *g, const struct guest_memory_part *part,
                     struct guest_pages *out, struct err *e)
{
    struct scan_region regions[REGIONS_AT_ONCE];
    struct scan_arg arg = {.size = sizeof arg,
                           .start = part->start,
                           .end = part->start + part->bytes,
                           .vec = (uintptr_t)regions,
                           .vec_len = REGIONS_AT_ONCE,
                           .category_inverted = SCAN_FILE,
                           .category_mask = SCAN_FILE,
                           .category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
                           .return_mask = SCAN_PRESENT};
    while (arg.start < arg.end) {
        int count = ioctl(g->pagemap, SCAN_REQUEST, &arg);
        if (count < 0 && errno == ENOTTY)
            return 1;
        if (count < 0 || arg.walk_end <= arg.start)
            return err_sys(e, count < 0 ? errno : EIO, "look at the pages of QEMU");
        for (int i = 0; i < count; i++)
            add_span(out, (regions[i].start - part->start + part->offset) / PAGE_BYTES,
                     (regions[i].end - regions[i].start) / PAGE_BYTES);
        arg.start = arg.walk_end;
    }
    return 0;
}

static int read_part(const struct guest_memory *g, const struct guest_memory_part *part,
                     struct guest_pages *out, struct err *e)
{
    uint64_t *entries auto_free = xcalloc(ENTRIES_AT_ONCE, sizeof *entries);
    uint64_t pages = part->bytes / PAGE_BYTES, first = part->offset / PAGE_BYTES;
    for (uint64_t done = 0; done < pages;) {
        uint64_t want = pages - done < ENTRIES_AT_ONCE ? pages - done : ENTRIES_AT_ONCE;
        off_t at = (off_t)((part->start / PAGE_BYTES + done) * sizeof *entries);
        ssize_t n = pread(g->pagemap, entries, want * sizeof *entries, at);
        if (n <= 0)
            return err_sys(e, n < 0 ? errno : EIO, "look at the pages of QEMU");
        uint64_t got = (uint64_t)n / sizeof *entries;
        for (uint64_t i = 0; i < got; i++) {
            bool present = (entries[i] & ENTRY_PRESENT) && !(entries[i] & ENTRY_FILE);
            if (present || (entries[i] & ENTRY_SWAPPED))
                add_span(out, first + done + i, 1);
        }
        done += got;
    }
    return 0;
}

int guest_memory_scan(struct guest_memory *g, struct guest_pages *out, struct err *e)
{
    guest_pages_fini(out);
    for (int i = 0; i < g->part_count; i++) {
        int result = g->no_scan ? 1 : scan_part(g, &g->parts[i], out, e);
        g->no_scan = result > 0;
        if (g->no_scan)
            result = read_part(g, &g->parts[i], out, e);
        if (result != 0)
            return result;
    }
    return 0;
}

// ---- contents

static int check_span(const struct guest_memory *g, uint64_t first, uint64_t count, struct err *e)
{
    uint64_t pages = g->ram_bytes / PAGE_BYTES;
    if (first > pages || count > pages - first)
        return err_set(e, ERR_INVALID, "the image has pages outside of the guest's memory");
    return 0;
}

// Return the address in QEMU of a byte of the guest's memory. Reduce *bytes to the bytes that are
// contiguous there.
static uint64_t find(const struct guest_memory *g, uint64_t at, uint64_t *bytes)
{
    const struct guest_memory_part *part = g->parts;
    while (at - part->offset >= part->bytes)
        part++; // the parts have no gaps, and together they are as large as the memory
    uint64_t rest = part->offset + part->bytes - at;
    *bytes = *bytes < rest ? *bytes : rest;
    return part->start + (at - part->offset);
}

static int move(const struct guest_memory *g, struct guest_span span, char *to, const char *from,
                struct err *e)
{
    uint64_t at = span.first * PAGE_BYTES, end = at + span.count * PAGE_BYTES;
    for (uint64_t done = 0; at + done < end;) {
        uint64_t len = end - at - done;
        off_t address = (off_t)find(g, at + done, &len);
        ssize_t n =
            to ? pread(g->mem, to + done, len, address) : pwrite(g->mem, from + done, len, address);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) // 0: the process has ended, and its memory with it
            return err_sys(e, n < 0 ? errno : ESRCH, "%s the guest's memory",
                           to ? "read" : "write");
        done += (uint64_t)n;
    }
    return 0;
}

// Address ranges in QEMU that one call reads.
struct batch {
    struct iovec sources[IOV_MAX];
    int count;
    size_t bytes;
};

static bool read_batch(const struct guest_memory *g, struct batch *b, char **to)
{
    struct iovec into = {.iov_base = *to, .iov_len = b->bytes};
    ssize_t n = process_vm_readv(g->pid, &into, 1, b->sources, (unsigned long)b->count, 0);
    bool is_whole = n == (ssize_t)b->bytes;
    *to += b->bytes;
    b->count = 0;
    b->bytes = 0;
    return is_whole;
}

static bool read_batches(const struct guest_memory *g, const struct guest_span *spans, size_t count,
                         char *to)
{
    struct batch b = {.count = 0};
    for (size_t i = 0; i < count; i++) {
        uint64_t at = spans[i].first * PAGE_BYTES, end = at + spans[i].count * PAGE_BYTES, len;
        for (; at < end; at += len) {
            len = end - at;
            uint64_t address = find(g, at, &len);
            b.sources[b.count++] =
                (struct iovec){.iov_base = (void *)(uintptr_t)address, .iov_len = len};
            b.bytes += len;
            if (b.count == IOV_MAX && !read_batch(g, &b, &to))
                return false;
        }
    }
    return b.count == 0 || read_batch(g, &b, &to);
}

int guest_memory_read(const struct guest_memory *g, const struct guest_span *spans, size_t count,
                      char *to, struct err *e)
{
    char byte;
    for (size_t i = 0; i < count; i++) {
        if (check_span(g, spans[i].first, spans[i].count, e) != 0)
            return -1;
    }
    // A successful pread shows that the process still lives, so its pid was its own during the
    // whole call before.
    if (read_batches(g, spans, count, to) && pread(g->mem, &byte, 1, (off_t)g->parts[0].start) == 1)
        return 0;
    // Fallback for a host that forbids the call (a container's filter), or for a call that was cut
    // short.
    for (size_t i = 0; i < count; i++) {
        if (move(g, spans[i], to, NULL, e) != 0)
            return -1;
        to += spans[i].count * PAGE_BYTES;
    }
    return 0;
}

int guest_memory_write(const struct guest_memory *g, uint64_t first, uint64_t count,
                       const char *from, struct err *e)
{
    if (check_span(g, first, count, e) != 0)
        return -1;
    return move(g, (struct guest_span){.first = first, .count = count}, NULL, from, e);
}
