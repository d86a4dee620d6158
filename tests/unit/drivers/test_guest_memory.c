// SPDX-License-Identifier: Apache-2.0
// The private mapping of a file in another process: its changed pages are found, read and replaced.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/image/guest_memory.h"
#include "sandbox-backend/drivers/microvm/image/page_file.h"
#include "tests/lib/harness/tap.h"

#define PAGES     8192
#define RAM_BYTES (PAGES * (uint64_t)PAGE_BYTES)

static char path[] = "/tmp/cubby-memory-XXXXXX";

// Maps it, reads some pages, writes others, says so, waits for a byte, and then tells whether
// pages 100 and 101 are what they were replaced by.
static _Noreturn void be_qemu(int in, int out)
{
    char *ram =
        mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, STDIN_FILENO, 0); // the file
    char c = 0;
    if (ram == MAP_FAILED)
        _exit(2);
    // The kernel splits what differs in advice: several mappings that are one memory.
    madvise(ram + 4096 * (size_t)PAGE_BYTES, 1000 * (size_t)PAGE_BYTES, MADV_DONTDUMP);
    for (size_t i = 0; i < PAGES; i += 3)
        c ^= ram[i * PAGE_BYTES];
    for (size_t i = 2000; i < 6000; i += 2)
        ram[i * PAGE_BYTES] = (char)(i / 2);
    memset(ram + 7000 * (size_t)PAGE_BYTES, 'x', 50 * (size_t)PAGE_BYTES);
    ram[RAM_BYTES - 1] = 'e';
    if (write(out, &c, 1) != 1 || read(in, &c, 1) != 1)
        _exit(2);
    bool same = true;
    for (size_t i = 0; i < 2 * (size_t)PAGE_BYTES; i++)
        same = same && ram[100 * (size_t)PAGE_BYTES + i] == 'n';
    _exit(same ? 0 : 1);
}

static void is_span(const struct guest_pages *p, size_t i, uint64_t first, uint64_t count)
{
    ok(i < p->span_count, "span %zu is there", i);
    if (i >= p->span_count)
        return;
    is_int(p->spans[i].first, first, "first of span %zu", i);
    is_int(p->spans[i].count, count, "count of span %zu", i);
}

static void look(struct guest_memory *g, const char *how)
{
    struct err e = ERR_INIT;
    struct guest_pages pages = {0};
    ok(guest_memory_scan(g, &pages, &e) == 0, "%s: %s", how, e.msg);
    is_int(pages.span_count, 2000 + 2, "%s: spans", how);
    is_int(pages.total, 2000 + 50 + 1, "%s: pages", how);
    is_span(&pages, 0, 2000, 1);
    is_span(&pages, 1999, 5998, 1);
    is_span(&pages, 2000, 7000, 50);
    is_span(&pages, 2001, PAGES - 1, 1);
    guest_pages_fini(&pages);
}

static void use(struct guest_memory *g)
{
    static char got[60 * PAGE_BYTES], new[2 * PAGE_BYTES];
    struct err e = ERR_INIT;
    ok(guest_memory_read(g, &(struct guest_span){6995, 60}, 1, got, &e) == 0, "read %s", e.msg);
    ok(got[5 * PAGE_BYTES - 1] == 0 && got[5 * PAGE_BYTES] == 'x' &&
           got[55 * PAGE_BYTES - 1] == 'x' && got[55 * PAGE_BYTES] == 0,
       "what it has written, and the file's around it");
    ok(guest_memory_read(g, &(struct guest_span){4090, 60}, 1, got, &e) == 0,
       "over the mappings' edge");
    is_int(got[8 * PAGE_BYTES], (char)(4098 / 2), "in order");
    memset(new, 'n', sizeof new);
    struct guest_span many[2000];
    char *all auto_free = xcalloc(ARRAY_LEN(many), PAGE_BYTES);
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        many[i] = (struct guest_span){2000 + 2 * i, 1};
    ok(guest_memory_read(g, many, ARRAY_LEN(many), all, &e) == 0, "more than one call takes");
    bool in_order = true;
    for (size_t i = 0; i < ARRAY_LEN(many); i++)
        in_order = in_order && all[i * PAGE_BYTES] == (char)(1000 + i);
    ok(in_order, "one behind the other");
    ok(guest_memory_write(g, 100, 2, new, &e) == 0, "write %s", e.msg);
    ok(guest_memory_write(g, PAGES - 1, 2, new, &e) != 0, "not over the end");
    is_int(e.code, ERR_INVALID, "is told");
    ok(guest_memory_read(g, &(struct guest_span){UINT64_MAX, 1}, 1, got, NULL) != 0, "far out");
}

int main(void)
{
    int file = mkstemp(path), to[2], from[2];
    struct err e = ERR_INIT;
    struct guest_memory g;
    char c = 0;
    ok(ftruncate(file, (off_t)RAM_BYTES) == 0 && pipe(to) == 0 && pipe(from) == 0, "pipes");
    pid_t pid = fork();
    if (pid == 0) {
        dup2(file, STDIN_FILENO);
        be_qemu(to[0], from[1]);
    }
    ok(read(from[0], &c, 1) == 1, "it has written");
    ok(guest_memory_open(&g, pid, path, RAM_BYTES, &e) == 0, "found %s", e.msg);
    ok(g.part_count >= 3, "in %d mappings", g.part_count);
    look(&g, "as this kernel can");
    g.no_scan = true;
    look(&g, "by the entries");
    use(&g);
    ok(write(to[1], &c, 1) == 1, "let it look");
    int status = -1;
    waitpid(pid, &status, 0);
    is_int(status, 0, "it finds what was written");
    ok(guest_memory_read(&g, &(struct guest_span){0, 1}, 1, (char[PAGE_BYTES]){0}, &e) != 0,
       "it has ended: %s", e.msg);
    guest_memory_close(&g);
    e = ERR_INIT;
    ok(guest_memory_open(&g, getpid(), path, RAM_BYTES, &e) != 0, "we have not mapped it");
    is_int(e.code, ERR_UNAVAILABLE, "is told");
    unlink(path);
    return tap_done();
}
