// SPDX-License-Identifier: Apache-2.0
// The regions: written from the memory of a stopped process to the file, and mapped from the file
// again.
#include "sandbox-backend/guest/fold/regions.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define MAPS_BYTES_MAX (8 << 20)
#define REGION_MAX     (1ULL << 30) // a larger one is address space rather than memory
#define WINDOW         (4 << 20)    // read at once
#define GAP_PAGES      15           // zeros within a run: fewer runs are worth their room

// gVisor copies up to 2 MB around a page of a private mapping that is written, but only the page
// and its neighbours in a mapping with this flag. Linux ignores it.
#define MAP_FLAGS (MAP_PRIVATE | MAP_FIXED | MAP_STACK)

struct region {
    uint64_t start, end;
    int protection;
};

// Read a line of /proc/PID/maps. Return false if the region cannot be folded.
static bool parse_region(const char *line, struct region *out)
{
    char permissions[8], name[16] = "";
    int fields = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*s %*s %*s %15s", &out->start,
                        &out->end, permissions, name);
    if (fields < 3 || permissions[0] != 'r' || permissions[1] != 'w' || permissions[3] != 'p' ||
        (name[0] == '[' && !str_eq(name, "[heap]")) || out->end - out->start > REGION_MAX)
        return false;
    out->protection = PROT_READ | PROT_WRITE | (permissions[2] == 'x' ? PROT_EXEC : 0);
    return true;
}

static bool is_zero(const char *page)
{
    static const char ZERO[PLAN_PAGE];
    return memcmp(page, ZERO, PLAN_PAGE) == 0;
}

// Return the number of pages of the run at `first`, which ends at a long gap of zeros. 0: the gap
// begins at `first`.
static size_t run_pages(const char *window, size_t first, size_t pages)
{
    size_t end = first;
    for (size_t i = first; i < pages && i < end + GAP_PAGES; i++)
        if (!is_zero(window + i * PLAN_PAGE))
            end = i + 1;
        else if (i == first)
            break;
    return end - first;
}

static int dump_window(const struct tracee *t, struct plan *p, const struct region *r, uint64_t at,
                       char *window, struct err *e)
{
    size_t want = r->end - at < WINDOW ? r->end - at : WINDOW;
    size_t pages = tracee_read(t, at, window, want) / PLAN_PAGE;
    for (size_t i = 0; i < pages;) {
        size_t count = run_pages(window, i, pages);
        struct plan_run run = {.pid = t->pid,
                               .protection = r->protection,
                               .address = at + i * PLAN_PAGE,
                               .length = count * PLAN_PAGE};
        if (count && plan_add(p, run, window + i * PLAN_PAGE, e) < 0)
            return -1;
        i += count ? count : 1;
    }
    return 0;
}

int regions_dump(struct tracee *t, struct plan *p, struct err *e)
{
    char path[64];
    struct buf text auto_buf = BUF_INIT;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)t->pid);
    if (file_read(path, MAPS_BYTES_MAX, &text, e) < 0)
        return -1;
    char *window auto_free = xmalloc(WINDOW);
    char *rest = text.data;
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        struct region r;
        if (!parse_region(line, &r))
            continue;
        for (uint64_t at = r.start; at < r.end; at += WINDOW)
            if (dump_window(t, p, &r, at, window, e) < 0)
                return -1;
    }
    return 0;
}

// ---- back
struct mapper {
    struct tracee *tracee; // borrowed
    int file;
    uint64_t fd; // the file's descriptor in the process
    char *now;   // owned; WINDOW
    char *then;  // owned
    uint64_t mapped;
};

static int map_pages(struct mapper *m, const struct plan_run *r, size_t first, size_t count,
                     struct err *e)
{
    uint64_t address = r->address + first * PLAN_PAGE;
    const uint64_t args[6] = {address,
                              count * PLAN_PAGE,
                              (uint64_t)r->protection,
                              MAP_FLAGS,
                              m->fd,
                              r->offset + first * PLAN_PAGE};
    long result = tracee_call(m->tracee, SYS_mmap, args);
    if (result != (long)address)
        return err_sys(e, result < 0 ? (int)-result : EIO, "map folded memory");
    m->mapped += count * PLAN_PAGE;
    return 0;
}

static bool is_same(const struct mapper *m, size_t page)
{
    return memcmp(m->now + page * PLAN_PAGE, m->then + page * PLAN_PAGE, PLAN_PAGE) == 0;
}

// A run is not longer than a window.
static int map_run(struct mapper *m, const struct plan_run *r, struct err *e)
{
    ssize_t there = r->length > WINDOW ? -1 : pread(m->file, m->then, r->length, (off_t)r->offset);
    if (there != (ssize_t)r->length)
        return err_set(e, ERR_INVALID, "the file of folded memory is cut off");
    size_t pages = tracee_read(m->tracee, r->address, m->now, r->length) / PLAN_PAGE;
    for (size_t i = 0; i < pages; i++) {
        size_t end = i;
        while (end < pages && is_same(m, end))
            end++;
        if (end > i && map_pages(m, r, i, end - i, e) < 0)
            return -1;
        i = end;
    }
    return 0;
}

static int map_all(struct mapper *m, const char *path, const struct plan_run *runs, size_t count,
                   struct err *e)
{
    const uint64_t file[6] = {(uint64_t)AT_FDCWD, tracee_text(m->tracee, path),
                              O_RDONLY | O_CLOEXEC};
    long fd = file[1] ? tracee_call(m->tracee, SYS_openat, file) : -EFAULT;
    if (fd < 0)
        return err_sys(e, (int)-fd, "open %s in process %d", path, (int)m->tracee->pid);
    m->fd = (uint64_t)fd;
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        result = map_run(m, &runs[i], e);
    const uint64_t last[6] = {m->fd};
    tracee_call(m->tracee, SYS_close, last);
    return result;
}

int regions_map(struct tracee *t, const char *path, int file, const struct plan_run *runs,
                size_t count, uint64_t *mapped, struct err *e)
{
    struct mapper m = {.tracee = t, .file = file, .now = xmalloc(WINDOW), .then = xmalloc(WINDOW)};
    int result = tracee_calls_begin(t, e);
    if (result == 0) {
        result = map_all(&m, path, runs, count, e);
        if (tracee_calls_end(t, e) < 0)
            result = -1;
    }
    *mapped = m.mapped;
    free(m.now);
    free(m.then);
    return result;
}
