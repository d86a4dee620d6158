// SPDX-License-Identifier: Apache-2.0
// Send an open file as the body of a response, in one of three ways:
//   - uncompressed and large: read from the disk in large blocks, without the page cache
//     (files_internal.h);
//   - uncompressed otherwise: from the page cache to the socket by the guest kernel, since under
//     emulation copying is most of a download's cost;
//   - compressed, or of unknown length: read in chunks.
// Reads block: the disk is local, and one turn of the loop does a bounded number.
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/files/files_internal.h"
#include "sandbox-backend/net/gzip.h"

// ---- blocks for direct I/O: each is mapped while it is used, so that an idle envd holds none

static int taken;

char *direct_block_take(void)
{
    if (taken == DIRECT_BLOCKS)
        return NULL;
    void *block =
        mmap(NULL, DIRECT_BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    taken++;
    return block;
}

void direct_block_give(char *block)
{
    if (!block)
        return;
    munmap(block, DIRECT_BLOCK_BYTES);
    taken--;
}

bool direct_block_switch(int fd, bool is_direct)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0)
        return false;
    return fcntl(fd, F_SETFL, is_direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

// ---- a download

#define CHUNK_BYTES     (64 * 1024)
#define CHUNKS_PER_TURN 4
#define SEND_BYTES      (256 * 1024) // for one call to the kernel

struct download {
    struct http_request *req;
    int fd; // owned
    off_t at;
    int64_t left; // -1: until the file ends
    bool copies;  // envd reads and writes the bytes itself
    bool has_room;
    struct gzip *gzip;          // owned; NULL: uncompressed
    char *block;                // owned; NULL: the page cache is used
    size_t block_at, block_end; // the unsent part of the block
    uv_idle_t idle;
};

static void on_idle(uv_idle_t *idle);

static void on_idle_closed(uv_handle_t *handle)
{
    free(container_of((uv_idle_t *)handle, struct download, idle));
}

static void release(struct download *d)
{
    close(steal_fd(&d->fd));
    gzip_free(steal(&d->gzip));
    direct_block_give(steal(&d->block));
    uv_close((uv_handle_t *)&d->idle, on_idle_closed);
}

static void on_closed(void *ctx)
{
    release(ctx);
}

static void end(struct download *d, bool whole)
{
    struct http_request *req = d->req;
    http_request_on_close(req, NULL, NULL);
    release(d);
    if (whole)
        http_response_end(req);
    else
        http_response_abort(req); // the client must not take it for the file
}

static void on_drain(void *ctx)
{
    struct download *d = ctx;
    uv_idle_start(&d->idle, on_idle);
}

static int take_compressed(const char *data, size_t len, void *ctx)
{
    struct download *d = ctx;
    d->has_room = http_response_write(d->req, data, len);
    return 0;
}

static bool write_chunk(struct download *d, const char *data, size_t len)
{
    if (!d->gzip) {
        d->has_room = http_response_write(d->req, data, len);
        return true;
    }
    return gzip_feed(d->gzip, data, len, take_compressed, d, NULL) == 0;
}

static bool finish(struct download *d)
{
    if (d->left > 0) // the file has become shorter
        return false;
    return !d->gzip || gzip_finish(d->gzip, take_compressed, d, NULL) == 0;
}

// Read and send one chunk. False: the download is over.
static bool copy_chunk(struct download *d)
{
    static char chunk[CHUNK_BYTES];
    size_t want = d->left >= 0 && d->left < CHUNK_BYTES ? (size_t)d->left : CHUNK_BYTES;
    ssize_t n = want ? pread(d->fd, chunk, want, d->at) : 0;
    if (n < 0 && errno == EINTR)
        return true;
    if (n <= 0) {
        end(d, n == 0 && finish(d));
        return false;
    }
    d->at += n;
    if (d->left > 0)
        d->left -= n;
    if (write_chunk(d, chunk, (size_t)n))
        return true;
    end(d, false);
    return false;
}

// ---- without chunks

// Let the kernel send from the page cache.
static ssize_t send_cached(struct download *d)
{
    size_t len = d->left < SEND_BYTES ? (size_t)d->left : SEND_BYTES;
    off_t at = d->at;
    return http_response_send_file(d->req, d->fd, &at, len);
}

static bool fill_block(struct download *d)
{
    size_t skip = (size_t)(d->at % DIRECT_BLOCK_ALIGN);
    ssize_t n;
    do
        n = pread(d->fd, d->block, DIRECT_BLOCK_BYTES, d->at - (off_t)skip);
    while (n < 0 && errno == EINTR);
    d->block_at = skip;
    d->block_end = n < 0 ? 0 : (size_t)n;
    return d->block_at < d->block_end;
}

static void end_direct(struct download *d)
{
    direct_block_switch(d->fd, false);
    direct_block_give(steal(&d->block));
}

// Send from a block. After a failed read, the page cache is tried, which reports the error.
static ssize_t send_direct(struct download *d)
{
    if (d->block_at >= d->block_end && !fill_block(d)) {
        end_direct(d);
        return send_cached(d);
    }
    size_t len = d->block_end - d->block_at;
    if ((int64_t)len > d->left)
        len = (size_t)d->left;
    ssize_t n = http_response_send_bytes(d->req, d->block + d->block_at,
                                         len < SEND_BYTES ? len : SEND_BYTES);
    if (n > 0)
        d->block_at += (size_t)n;
    else if (n < 0)
        end_direct(d);
    return n;
}

static void begin_direct(struct download *d)
{
    if (d->left >= DIRECT_BLOCK_BYTES)
        d->block = direct_block_take();
    if (d->block && !direct_block_switch(d->fd, true))
        direct_block_give(steal(&d->block));
}

// ---- one piece at a time

// Send one piece. False: the download is over, or waits for the client.
static bool step(struct download *d)
{
    d->has_room = true;
    if (d->left == 0 && !d->gzip) {
        end(d, true);
        return false;
    }
    if (d->copies) {
        if (!copy_chunk(d))
            return false;
    } else {
        ssize_t n = d->block ? send_direct(d) : send_cached(d);
        d->copies = n < 0;
        d->has_room = n != 0;
        d->at += n > 0 ? n : 0;
        d->left -= n > 0 ? n : 0;
    }
    if (!d->has_room)
        uv_idle_stop(&d->idle);
    return d->has_room;
}

static void on_idle(uv_idle_t *idle)
{
    struct download *d = container_of(idle, struct download, idle);
    for (int i = 0; i < CHUNKS_PER_TURN && step(d); i++)
        ;
}

void download_start(struct envd *envd, struct http_request *req, const struct download_spec *spec)
{
    struct download *d = xcalloc(1, sizeof *d);
    *d = (struct download){.req = req, .fd = spec->fd, .at = spec->from, .left = spec->length};
    d->copies = spec->gzip || spec->length < 0;
    uv_idle_init(envd->loop, &d->idle);
    if (spec->gzip && !(d->gzip = gzip_compress_new())) {
        release(d);
        http_respond_error(req, 503, "not enough memory to compress the file: try again");
        return;
    }
    if (!d->copies)
        begin_direct(d);
    http_request_on_close(req, on_closed, d);
    http_response_on_drain(req, on_drain, d);
    http_response_header(req, "Content-Type", spec->type);
    http_response_begin(req, spec->status, spec->gzip ? -1 : spec->length);
    uv_idle_start(&d->idle, on_idle);
}
