// SPDX-License-Identifier: Apache-2.0
// The file `pages` of an image.
#include "sandbox-backend/drivers/microvm/image/page_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define PIECES_MAX      1024 // pieces of one write (IOV_MAX)
#define RANGES_FIRST    1024
#define RANGE_COUNT_MAX UINT32_MAX

_Static_assert(sizeof(struct page_range) == 16, "it is written as it is");
_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "numbers are written as they are");

struct page_writer {
    int fd;
    char *path;
    uint64_t ram_bytes;
    uint64_t data_pages;
    struct page_range *ranges; // owned
    size_t range_count;
    size_t range_room;
    struct iovec pieces[PIECES_MAX]; // pieces that are not written yet
    int piece_count;
};

struct page_writer *page_writer_open(const char *path, uint64_t ram_bytes, struct err *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || lseek(fd, PAGE_BYTES, SEEK_SET) < 0) {
        err_sys(e, errno, "create %s", path);
        mem_close_fd(&fd);
        return NULL;
    }
    struct page_writer *w = xcalloc(1, sizeof *w);
    *w = (struct page_writer){.fd = fd, .path = xstrdup(path), .ram_bytes = ram_bytes};
    return w;
}

static void add_range(struct page_writer *w, uint64_t first, enum page_kind kind)
{
    struct page_range *last = w->range_count ? &w->ranges[w->range_count - 1] : NULL;
    if (last && last->kind == kind && last->first + last->count == first &&
        last->count < RANGE_COUNT_MAX) {
        last->count++;
        return;
    }
    if (!w->ranges || w->range_count == w->range_room) {
        w->range_room = w->range_room ? 2 * w->range_room : RANGES_FIRST;
        w->ranges = xrealloc(w->ranges, w->range_room * sizeof *w->ranges);
    }
    w->ranges[w->range_count++] = (struct page_range){.first = first, .count = 1, .kind = kind};
}

static int add_piece(struct page_writer *w, const char *page, struct err *e)
{
    struct iovec *last = w->piece_count ? &w->pieces[w->piece_count - 1] : NULL;
    w->data_pages++;
    if (last && (char *)last->iov_base + last->iov_len == page) {
        last->iov_len += PAGE_BYTES;
        return 0;
    }
    if (w->piece_count == PIECES_MAX && page_writer_flush(w, e) != 0)
        return -1;
    w->pieces[w->piece_count++] =
        (struct iovec){.iov_base = (char *)(uintptr_t)page, .iov_len = PAGE_BYTES};
    return 0;
}

static bool is_zero(const char *page)
{
    return page[0] == 0 && memcmp(page, page + 1, PAGE_BYTES - 1) == 0;
}

int page_writer_add(struct page_writer *w, uint64_t first, size_t count, const char *data,
                    struct err *e)
{
    for (size_t i = 0; i < count; i++) {
        const char *page = data + i * PAGE_BYTES;
        bool zero = is_zero(page);
        add_range(w, first + i, zero ? PAGE_ZERO : PAGE_DATA);
        if (!zero && add_piece(w, page, e) != 0)
            return -1;
    }
    return 0;
}

static int write_all(struct page_writer *w, struct iovec *pieces, int count, struct err *e)
{
    while (count > 0) {
        ssize_t n = writev(w->fd, pieces, count);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "write %s", w->path);
        for (; count > 0 && (size_t)n >= pieces->iov_len; pieces++, count--)
            n -= (ssize_t)pieces->iov_len;
        if (count > 0) {
            pieces->iov_base = (char *)pieces->iov_base + n;
            pieces->iov_len -= (size_t)n;
        }
    }
    return 0;
}

int page_writer_flush(struct page_writer *w, struct err *e)
{
    int count = w->piece_count;
    w->piece_count = 0;
    return write_all(w, w->pieces, count, e);
}

int page_writer_finish(struct page_writer *w, struct err *e)
{
    struct page_file_header header = {.page_bytes = PAGE_BYTES,
                                      .ram_bytes = w->ram_bytes,
                                      .data_pages = w->data_pages,
                                      .range_count = w->range_count};
    struct iovec ranges = {.iov_base = w->ranges,
                           .iov_len = w->range_count * sizeof(struct page_range)};
    char page[PAGE_BYTES] = {0};
    memcpy(header.magic, PAGE_FILE_MAGIC, sizeof header.magic);
    memcpy(page, &header, sizeof header);
    if (page_writer_flush(w, e) != 0 || write_all(w, &ranges, 1, e) != 0)
        return -1;
    ssize_t n = pwrite(w->fd, page, sizeof page, 0);
    return n == sizeof page ? 0 : err_sys(e, n < 0 ? errno : ENOSPC, "write %s", w->path);
}

void page_writer_close(struct page_writer *w)
{
    if (!w)
        return;
    close(w->fd);
    free(w->path);
    free(w->ranges);
    free(w);
}

// ---- reading

static int read_at(int fd, void *to, size_t len, off_t at, const char *path, struct err *e)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = pread(fd, (char *)to + have, len - have, at + (off_t)have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(e, errno, "read %s", path);
        if (n == 0)
            return err_set(e, ERR_INVALID, "%s is cut off", path);
        have += (size_t)n;
    }
    return 0;
}

static int check_header(const struct page_file_header *h, uint64_t size, uint64_t ram_bytes,
                        const char *path, struct err *e)
{
    uint64_t pages = ram_bytes / PAGE_BYTES;
    if (memcmp(h->magic, PAGE_FILE_MAGIC, sizeof h->magic) != 0 || h->page_bytes != PAGE_BYTES)
        return err_set(e, ERR_INVALID, "this version of Cubby cannot read the file of pages %s",
                       path);
    if (h->ram_bytes != ram_bytes)
        return err_set(e, ERR_INVALID, "%s is from a machine with %llu bytes of memory, not %llu",
                       path, (unsigned long long)h->ram_bytes, (unsigned long long)ram_bytes);
    if (h->data_pages > pages || h->range_count > pages ||
        size != (1 + h->data_pages) * PAGE_BYTES + h->range_count * sizeof(struct page_range))
        return err_set(e, ERR_INVALID, "%s is damaged: its size is not what its header says", path);
    return 0;
}

static int check_ranges(const struct page_file *f, const struct page_file_header *h,
                        const char *path, struct err *e)
{
    uint64_t pages = h->ram_bytes / PAGE_BYTES, next = 0, data = 0;
    for (size_t i = 0; i < f->range_count; i++) {
        const struct page_range *r = &f->ranges[i];
        if (r->first < next || r->first >= pages || r->count == 0 || r->count > pages - r->first ||
            r->kind > PAGE_ZERO)
            return err_set(e, ERR_INVALID, "%s is damaged: its range %zu is invalid", path, i);
        next = r->first + r->count;
        data += r->kind == PAGE_DATA ? r->count : 0;
    }
    if (data != h->data_pages)
        return err_set(e, ERR_INVALID, "%s is damaged: its ranges do not add up", path);
    return 0;
}

static int load(struct page_file *f, int fd, const char *path, uint64_t ram_bytes, struct err *e)
{
    struct page_file_header h;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return err_sys(e, errno, "read %s", path);
    if (read_at(fd, &h, sizeof h, 0, path, e) != 0 ||
        check_header(&h, (uint64_t)st.st_size, ram_bytes, path, e) != 0)
        return -1;
    size_t bytes = h.range_count * sizeof(struct page_range);
    f->range_count = h.range_count;
    f->ranges = try_malloc(bytes ? bytes : 1);
    if (!f->ranges)
        return err_set(e, ERR_LIMIT, "there is no memory for the ranges of %s", path);
    if (read_at(fd, f->ranges, bytes, (off_t)((1 + h.data_pages) * PAGE_BYTES), path, e) != 0 ||
        check_ranges(f, &h, path, e) != 0)
        return -1;
    f->map_bytes = (size_t)st.st_size;
    f->map = mmap(NULL, f->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        return err_sys(e, errno, "map %s", path);
    }
    f->data = f->map + PAGE_BYTES;
    return 0;
}

int page_file_open(struct page_file *f, const char *path, uint64_t ram_bytes, struct err *e)
{
    *f = (struct page_file){0};
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    if (load(f, fd, path, ram_bytes, e) == 0)
        return 0;
    page_file_close(f);
    return -1;
}

void page_file_close(struct page_file *f)
{
    if (f->map)
        munmap(f->map, f->map_bytes);
    free(f->ranges);
    *f = (struct page_file){0};
}
