// SPDX-License-Identifier: Apache-2.0
// The part of a machine's saving that QEMU does not do.
#include "sandbox-backend/drivers/microvm/image/save_files.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/image/machine_image.h"
#include "sandbox-backend/host/meminfo.h"

#define MB                  (1024 * 1024)
#define BUFFER_MOST         (256 * MB) // for more pages, the guest waits for the disk
#define BUFFER_LEAST        (1 * MB)
#define BUFFER_STILL        (4 * MB) // if no guest waits, a larger buffer only costs more faults
#define BUFFER_SHARE        4        // the buffer takes at most 1/4 of the host's free memory
#define BUFFER_SPARE        (2 * MB)
#define PIECES_FIRST        1024
#define QCOW2_SIZE_AT       24 // the disk's size in the header, big-endian
#define MADV_POPULATE_WRITE 23 // Linux 5.14; older C libraries do not name it

// Make a buffer for the guest's own pages of this moment and some more, within limits. Populate it,
// because page faults would be half of the standstill.
static int make_buffer(struct save_files *s, struct err *e)
{
    struct meminfo host = {0};
    meminfo_read(&host, NULL);
    int64_t wanted = (int64_t)s->pages.total * PAGE_BYTES;
    wanted += wanted / 8 + BUFFER_SPARE;
    wanted = wanted < host.available / BUFFER_SHARE ? wanted : host.available / BUFFER_SHARE;
    wanted = MIN(wanted, s->guest_waits ? BUFFER_MOST : BUFFER_STILL);
    wanted = wanted > BUFFER_LEAST ? wanted : BUFFER_LEAST;
    s->buffer_pages = (uint64_t)wanted / PAGE_BYTES;
    size_t bytes = s->buffer_pages * PAGE_BYTES;
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return err_set(e, ERR_LIMIT, "the host has no memory for a copy of the sandbox's memory");
    s->buffer = made;
    madvise(made, bytes, MADV_HUGEPAGE);
    madvise(made, bytes, MADV_POPULATE_WRITE);
    return 0;
}

static int64_t disk_size(const char *path, struct err *e)
{
    uint64_t size = 0;
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, &size, sizeof size, QCOW2_SIZE_AT) != sizeof size)
        return err_sys(e, fd < 0 ? errno : EIO, "read %s", path);
    if (be64toh(size) > INT64_MAX) // QEMU writes the number, so check it
        return err_set(e, ERR_INVALID, "%s has an invalid disk size", path);
    return (int64_t)be64toh(size);
}

// Open the files: the one for the devices, and an empty disk of the right size.
static int open_files(struct save_files *s, struct err *e)
{
    char *empty auto_free = str_printf("%s/" TEMPLATE_OVERLAY, s->template_dir);
    char *disk auto_free = str_printf("%s/" MACHINE_IMAGE_DISK, s->dir);
    char *devices auto_free = str_printf("%s/" MACHINE_IMAGE_VMSTATE, s->dir);
    if (file_copy(empty, disk, 0600, e) != 0)
        return -1;
    FAULT("save.2");
    s->disk = open(disk, O_RDWR | O_CLOEXEC);
    if (s->disk < 0)
        return err_sys(e, errno, "open %s", disk);
    if (s->disk_only)
        return 0;
    s->devices = open(devices, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return s->devices < 0 ? err_sys(e, errno, "create %s", devices) : 0;
}

int save_files_prepare(struct save_files *s, struct err *e)
{
    char *memory auto_free = NULL;
    char *pages auto_free = str_printf("%s/" MACHINE_IMAGE_PAGES, s->dir);
    s->memory.mem = s->memory.pagemap = s->disk = s->devices = -1;
    memory = sized_load(&s->template, s->template_dir, &s->size, e);
    if (!memory)
        return -1;
    uint64_t ram_bytes = (uint64_t)s->template.memory_mb * MB;
    s->disk_bytes = disk_size(s->overlay, e);
    if (s->disk_only)
        return s->disk_bytes < 0 ? -1 : open_files(s, e);
    if (s->disk_bytes < 0 || guest_memory_open(&s->memory, s->qemu, memory, ram_bytes, e) != 0 ||
        guest_memory_scan(&s->memory, &s->pages, e) != 0 || make_buffer(s, e) != 0)
        return -1;
    FAULT("save.1");
    if (open_files(s, e) != 0)
        return -1;
    s->writer = page_writer_open(pages, ram_bytes, e);
    return s->writer ? 0 : -1;
}

void save_files_given(struct save_files *s)
{
    if (s->disk >= 0)
        close(s->disk);
    if (s->devices >= 0)
        close(s->devices);
    s->disk = s->devices = -1;
}

// ---- pages

static int add_pieces(struct save_files *s, struct err *e)
{
    const char *at = s->buffer;
    for (size_t i = 0; i < s->piece_count; i++) {
        const struct guest_span *piece = &s->pieces[i];
        if (page_writer_add(s->writer, piece->first, piece->count, at, e) != 0)
            return -1;
        at += piece->count * PAGE_BYTES;
    }
    s->piece_count = 0;
    return 0;
}

static void note_piece(struct save_files *s, uint64_t first, uint64_t count)
{
    if (s->piece_count == s->piece_room) {
        s->piece_room = s->piece_room ? 2 * s->piece_room : PIECES_FIRST;
        s->pieces = xrealloc(s->pieces, s->piece_room * sizeof *s->pieces);
    }
    s->pieces[s->piece_count++] = (struct guest_span){.first = first, .count = count};
}

// Copy pages until the buffer is full of pieces or all are copied.
static int fill_buffer(struct save_files *s, struct err *e)
{
    return guest_memory_read(&s->memory, s->pieces, s->piece_count, s->buffer, e);
}

int save_files_read(struct save_files *s, struct err *e)
{
    uint64_t used = 0; // pages of the buffer
    if (s->disk_only)
        return 0;
    if (guest_memory_scan(&s->memory, &s->pages, e) != 0)
        return -1;
    for (size_t i = 0; i < s->pages.span_count; i++) {
        struct guest_span span = s->pages.spans[i];
        while (span.count > 0) {
            if (used == s->buffer_pages) { // the guest has to wait for the disk
                if (fill_buffer(s, e) != 0 || add_pieces(s, e) != 0 ||
                    page_writer_flush(s->writer, e) != 0)
                    return -1;
                used = 0;
            }
            uint64_t room = s->buffer_pages - used;
            uint64_t count = span.count < room ? span.count : room;
            note_piece(s, span.first, count);
            used += count;
            span.first += count;
            span.count -= count;
        }
    }
    return fill_buffer(s, e);
}

int save_files_write(struct save_files *s, struct err *e)
{
    if (s->disk_only)
        return 0;
    if (add_pieces(s, e) != 0 || page_writer_finish(s->writer, e) != 0)
        return -1;
    munmap(s->buffer, s->buffer_pages * PAGE_BYTES);
    s->buffer = NULL;
    return 0;
}

int save_files_seal(struct save_files *s, struct err *e)
{
    return machine_image_seal(s->dir, &s->template, !s->disk_only, s->sync, &s->bytes, e);
}

void save_files_fini(struct save_files *s)
{
    template_fini(&s->template);
    save_files_given(s);
    guest_memory_close(&s->memory);
    guest_pages_fini(&s->pages);
    page_writer_close(s->writer);
    if (s->buffer)
        munmap(s->buffer, s->buffer_pages * PAGE_BYTES);
    free(s->pieces);
}
