// SPDX-License-Identifier: Apache-2.0
// The file of an image's pages: written, read, and refused when it is damaged.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/microvm/image/page_file.h"
#include "tests/lib/harness/tap.h"

#define RAM_PAGES 4096
#define RAM_BYTES (RAM_PAGES * (uint64_t)PAGE_BYTES)

static char path[] = "/tmp/cubby-pages-XXXXXX";
static char memory[RAM_BYTES];

static void fill(uint64_t first, size_t count, char with)
{
    memset(memory + first * PAGE_BYTES, with, count * PAGE_BYTES);
}

static void add(struct page_writer *w, uint64_t first, size_t count)
{
    struct err e = ERR_INIT;
    ok(page_writer_add(w, first, count, memory + first * PAGE_BYTES, &e) == 0, "add: %s", e.msg);
}

static void write_it(void)
{
    struct err e = ERR_INIT;
    struct page_writer *w = page_writer_open(path, RAM_BYTES, &e);
    fill(3, 2, 'a');
    memory[11 * PAGE_BYTES - 1] = 1; // the last byte of page 10: it is not zero
    fill(RAM_PAGES - 1, 1, 'z');
    add(w, 3, 2);
    add(w, 8, 4); // zero, zero, not, zero
    ok(page_writer_flush(w, &e) == 0, "flush in between");
    for (uint64_t i = 100; i < 3100; i += 2) { // more pieces than one write takes
        fill(i, 1, (char)i);
        memory[i * PAGE_BYTES] = 1;
        add(w, i, 1);
    }
    add(w, RAM_PAGES - 1, 1);
    ok(page_writer_finish(w, &e) == 0, "finish: %s", e.msg);
    page_writer_close(w);
}

static void is_range(const struct page_range *r, uint64_t first, uint32_t count, uint32_t kind)
{
    is_int(r->first, first, "first");
    is_int(r->count, count, "count");
    is_int(r->kind, kind, "kind");
}

static void read_it(void)
{
    static char other[RAM_BYTES];
    struct err e = ERR_INIT;
    struct page_file f;
    ok(page_file_open(&f, path, RAM_BYTES, &e) == 0, "open: %s", e.msg);
    is_int(f.range_count, 4 + 1500 + 1, "ranges");
    is_range(&f.ranges[0], 3, 2, PAGE_DATA);
    is_range(&f.ranges[1], 8, 2, PAGE_ZERO);
    is_range(&f.ranges[2], 10, 1, PAGE_DATA);
    is_range(&f.ranges[3], 11, 1, PAGE_ZERO);
    const char *data = f.data;
    for (size_t i = 0; i < f.range_count; i++) {
        const struct page_range *r = &f.ranges[i];
        if (r->kind == PAGE_ZERO)
            continue;
        memcpy(other + r->first * PAGE_BYTES, data, (size_t)r->count * PAGE_BYTES);
        data += (size_t)r->count * PAGE_BYTES;
    }
    ok(memcmp(memory, other, RAM_BYTES) == 0, "what was written is read");
    page_file_close(&f);
    ok(page_file_open(&f, path, RAM_BYTES * 2, &e) != 0, "of another memory: %s", e.msg);
    is_int(e.code, ERR_INVALID, "as invalid");
}

// Each change makes it one that is refused, and never one that crashes.
static void damage_it(void)
{
    struct buf good auto_buf = BUF_INIT;
    ok(file_read(path, 1 << 26, &good, NULL) == 0, "read");
    struct page_file_header h;
    memcpy(&h, good.data, sizeof h);
    size_t ranges = (1 + h.data_pages) * PAGE_BYTES;
    const struct {
        const char *what;
        size_t at;
        uint64_t value;
    } changes[] = {
        {"magic", 0, 0},
        {"page size", 8, 8192},
        {"size of memory", 16, 1},
        {"count of pages", 24, h.data_pages + 1},
        {"huge count of pages", 24, UINT64_MAX / PAGE_BYTES},
        {"count of ranges", 32, h.range_count - 1},
        {"huge count of ranges", 32, 1ULL << 60},
        {"range out of order", ranges + 16, 2},
        {"range far out", ranges, UINT64_MAX},
        {"empty range", ranges + 8, 0},
        {"long range", ranges + 8, UINT32_MAX},
        {"kind", ranges + 8, 2 | 7ULL << 32},
        {"data taken for zeros", ranges + 8, 2 | 1ULL << 32},
        {"last range over the end", good.len - 8, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        struct err e = ERR_INIT;
        struct page_file f;
        char *bad auto_free = xmemdup(good.data, good.len);
        memcpy(bad + changes[i].at, &changes[i].value, sizeof changes[i].value);
        file_replace(path, bad, good.len, 0600, NULL);
        ok(page_file_open(&f, path, RAM_BYTES, &e) != 0, "%s: %s", changes[i].what, e.msg);
        is_int(e.code, ERR_INVALID, "%s", changes[i].what);
    }
    const size_t cuts[] = {0, 20, PAGE_BYTES, good.len - 1};
    for (size_t i = 0; i < ARRAY_LEN(cuts); i++) {
        struct page_file f;
        file_replace(path, good.data, cuts[i], 0600, NULL);
        ok(page_file_open(&f, path, RAM_BYTES, NULL) != 0, "cut at %zu", cuts[i]);
    }
}

static void none(void)
{
    struct err e = ERR_INIT;
    struct page_file f;
    struct page_writer *w = page_writer_open(path, RAM_BYTES, &e);
    ok(w && page_file_open(&f, path, RAM_BYTES, NULL) != 0, "not finished is no file");
    ok(w && page_writer_finish(w, &e) == 0, "no pages");
    page_writer_close(w);
    ok(page_file_open(&f, path, RAM_BYTES, &e) == 0, "and read: %s", e.msg);
    is_int(f.range_count, 0, "none");
    page_file_close(&f);
    e = ERR_INIT;
    ok(!page_writer_open("/nonexistent/pages", RAM_BYTES, &e), "no directory");
    is_int(e.code, ERR_NOT_FOUND, "is told");
}

int main(void)
{
    close(mkstemp(path));
    write_it();
    read_it();
    damage_it();
    none();
    unlink(path);
    return tap_done();
}
