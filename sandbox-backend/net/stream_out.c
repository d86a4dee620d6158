// SPDX-License-Identifier: Apache-2.0
// The sending half of a stream: gathers small pieces, with one write in flight at a time.
#include "sandbox-backend/net/stream_out.h"

#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

// A larger buffer is freed when it is empty, because most connections are idle.
#define KEEP_BYTES 2048

void stream_out_init(struct stream_out *o, uv_stream_t *stream,
                     void (*on_written)(struct stream_out *o, int status))
{
    *o = (struct stream_out){.stream = stream, .on_written = on_written};
}

void stream_out_fini(struct stream_out *o)
{
    buf_fini(&o->queued);
    buf_fini(&o->sealed);
    buf_fini(&o->flight);
}

static void empty(struct buf *b)
{
    if (b->cap > KEEP_BYTES)
        buf_fini(b);
    else
        buf_clear(b);
}

// Return the bytes that the socket gets next.
static struct buf *waiting(struct stream_out *o)
{
    return o->seal ? &o->sealed : &o->queued;
}

size_t stream_out_unsent(const struct stream_out *o)
{
    return o->queued.len + o->sealed.len + (o->writing ? o->flight.len : 0);
}

static int broke(struct stream_out *o, int status)
{
    o->broken = true;
    empty(&o->queued);
    empty(&o->sealed);
    return status;
}

static void on_write(uv_write_t *request, int status)
{
    struct stream_out *o = container_of(request, struct stream_out, request);
    o->writing = false;
    empty(&o->flight);
    if (status < 0)
        broke(o, status);
    else
        status = stream_out_flush(o);
    o->on_written(o, status);
}

// Give the queue to the loop, which sends it as the socket takes it.
static int start_write(struct stream_out *o)
{
    struct buf unused = o->flight;
    o->flight = *waiting(o);
    *waiting(o) = unused;
    uv_buf_t piece = {.base = o->flight.data, .len = o->flight.len};
    int status = uv_write(&o->request, o->stream, &piece, 1, on_write);
    if (status < 0)
        return broke(o, status);
    o->writing = true;
    return 0;
}

// Drop the sent part of a piece; add the rest to the queue unless it is there already.
static void keep_rest(struct stream_out *o, const uv_buf_t *piece, size_t *sent)
{
    size_t gone = *sent < piece->len ? *sent : piece->len;
    *sent -= gone;
    if (gone == piece->len && piece->base == waiting(o)->data)
        empty(waiting(o));
    else if (piece->base == waiting(o)->data)
        buf_consume(waiting(o), gone);
    else
        buf_add(waiting(o), piece->base + gone, piece->len - gone);
}

// Encrypt everything in as few records as possible.
static bool seal_all(struct stream_out *o, const void *data, size_t len, const char *tail)
{
    buf_add(&o->queued, data, len);
    buf_adds(&o->queued, tail);
    bool fine = o->queued.len == 0 || o->seal(o, o->queued.data, o->queued.len);
    empty(&o->queued);
    return fine;
}

int stream_out_send(struct stream_out *o, const void *data, size_t len, const char *tail)
{
    if (o->broken)
        return UV_EPIPE;
    if (o->seal) {
        if (!seal_all(o, data, len, tail))
            return broke(o, UV_EPROTO);
        len = 0;
        tail = "";
    }
    uv_buf_t pieces[3];
    unsigned count = 0;
    size_t tail_len = strlen(tail);
    if (waiting(o)->len)
        pieces[count++] = (uv_buf_t){.base = waiting(o)->data, .len = waiting(o)->len};
    if (len)
        pieces[count++] = (uv_buf_t){.base = (char *)(uintptr_t)data, .len = len};
    if (tail_len)
        pieces[count++] = (uv_buf_t){.base = (char *)(uintptr_t)tail, .len = tail_len};
    if (count == 0)
        return 0;
    int n = o->writing ? UV_EAGAIN : uv_try_write(o->stream, pieces, count);
    if (n < 0 && n != UV_EAGAIN)
        return broke(o, n);
    size_t sent = n < 0 ? 0 : (size_t)n;
    for (unsigned i = 0; i < count; i++)
        keep_rest(o, &pieces[i], &sent);
    return waiting(o)->len && !o->writing ? start_write(o) : 0;
}

int stream_out_flush(struct stream_out *o)
{
    return stream_out_send(o, NULL, 0, "");
}
