// SPDX-License-Identifier: Apache-2.0
// Two connected streams joined.
#include "sandbox-backend/net/stream_join.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

// A direction of the joined streams.
struct flow {
    struct stream_join *join;
    uv_stream_t *from; // owned; its `data` points here
    uv_stream_t *to;   // `from` of the other direction
    struct buf rest;   // what `to` has not taken yet; in flight
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool over; // the end was passed on
};

struct stream_join {
    struct flow flows[2];
    const struct stream_join_guard *guard; // borrowed; NULL once it has admitted
    char early[STREAM_JOIN_EARLY_BYTES];   // the first bytes of flows[1] while there is a guard
    size_t early_len;
    size_t early_passed; // fewer than early_len while the guard lets bytes wait
    bool closing;
    int open; // open streams
    void (*on_closed)(void *ctx);
    void *ctx;
};

static void on_read(uv_stream_t *from, ssize_t n, const uv_buf_t *piece);
static void pass_early(struct stream_join *j, const char *data, size_t len);

// ---- the end

static void on_stream_closed(uv_handle_t *handle)
{
    struct stream_join *j = ((struct flow *)handle->data)->join;
    free(handle);
    if (--j->open)
        return;
    void (*on_closed)(void *ctx) = j->on_closed;
    void *ctx = j->ctx;
    buf_fini(&j->flows[0].rest);
    buf_fini(&j->flows[1].rest);
    free(j);
    on_closed(ctx);
}

static void close_all(struct stream_join *j, bool broken)
{
    if (j->closing)
        return;
    j->closing = true;
    for (int i = 0; i < 2; i++) {
        uv_handle_t *handle = (uv_handle_t *)j->flows[i].from;
        // A reset shows the other side that the connection broke; libuv sends none after the end
        // was sent.
        if (!broken || handle->type != UV_TCP ||
            uv_tcp_close_reset((uv_tcp_t *)handle, on_stream_closed) != 0)
            uv_close(handle, on_stream_closed);
    }
}

void stream_join_close(struct stream_join *j)
{
    close_all(j, true);
}

// ---- one direction

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
    struct flow *f = container_of(shutdown, struct flow, shutdown);
    struct stream_join *j = f->join;
    f->over = true;
    if (status < 0)
        close_all(j, true);
    else if (j->flows[0].over && j->flows[1].over)
        close_all(j, false);
}

static void pass_end(struct flow *f)
{
    uv_read_stop(f->from);
    if (f == &f->join->flows[1])
        pass_early(f->join, NULL, 0);
    if (f->join->closing)
        return;
    if (uv_shutdown(&f->shutdown, f->to, on_shutdown) < 0)
        close_all(f->join, true);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static char chunk[STREAM_JOIN_READ_BYTES]; // shared by all reads
    (void)handle;
    (void)suggested;
    *buf = (uv_buf_t){.base = chunk, .len = sizeof chunk};
}

static void read_on(struct flow *f)
{
    if (!f->join->closing && uv_read_start(f->from, on_alloc, on_read) < 0)
        close_all(f->join, true);
}

static void on_written(uv_write_t *write, int status)
{
    struct flow *f = container_of(write, struct flow, write);
    buf_fini(&f->rest);
    if (status < 0)
        close_all(f->join, true);
    else
        read_on(f);
}

// Keep the rest until `to` takes it, and stop reading `from`.
static void hold(struct flow *f, const char *data, size_t len)
{
    uv_read_stop(f->from);
    buf_add(&f->rest, data, len);
    uv_buf_t piece = {.base = f->rest.data, .len = f->rest.len};
    if (uv_write(&f->write, f->to, &piece, 1, on_written) < 0)
        close_all(f->join, true);
}

static void pass(struct flow *f, const char *data, size_t len)
{
    uv_buf_t piece = {.base = (char *)(uintptr_t)data, .len = len};
    int sent = uv_try_write(f->to, &piece, 1);
    if (sent < 0 && sent != UV_EAGAIN)
        close_all(f->join, true);
    else if (sent < 0 || (size_t)sent < len)
        hold(f, data + (sent < 0 ? 0 : sent), len - (sent < 0 ? 0 : (size_t)sent));
}

// ---- the guard

// Pass the bytes of flows[1] that wait, and then `data`.
static void pass_early(struct stream_join *j, const char *data, size_t len)
{
    struct buf all auto_buf = BUF_INIT;
    buf_add(&all, j->early + j->early_passed, j->early_len - j->early_passed);
    buf_add(&all, data, len);
    j->early_passed = j->early_len;
    if (all.len)
        pass(&j->flows[1], all.data, all.len);
}

// The answer is a few bytes, which an unused socket takes at once.
static bool is_refused(struct stream_join *j, const char *data, size_t len)
{
    struct buf answer auto_buf = BUF_INIT;
    if (j->guard->admits(data, len, &answer)) {
        j->guard = NULL;
        pass_early(j, NULL, 0);
        return j->closing;
    }
    uv_buf_t piece = {.base = answer.data, .len = answer.len};
    uv_try_write(j->flows[0].from, &piece, 1);
    close_all(j, false);
    return true;
}

static void judge_early(struct stream_join *j, const char *data, size_t len)
{
    size_t room = sizeof j->early - j->early_len;
    size_t taken = len < room ? len : room;
    memcpy(j->early + j->early_len, data, taken);
    j->early_len += taken;
    enum stream_join_verdict verdict =
        taken ? j->guard->judges(j->early, j->early_len) : STREAM_JOIN_PASS;
    if (verdict == STREAM_JOIN_REFUSE)
        close_all(j, true);
    else if (verdict == STREAM_JOIN_PASS || j->early_len == sizeof j->early)
        pass_early(j, data + taken, len - taken);
}

// Return whether the guard has refused or taken the bytes.
static bool is_guarded(struct flow *f, const char *data, size_t len)
{
    struct stream_join *j = f->join;
    if (!j->guard)
        return false;
    if (f == &j->flows[0])
        return is_refused(j, data, len);
    judge_early(j, data, len);
    return true;
}

static void on_read(uv_stream_t *from, ssize_t n, const uv_buf_t *piece)
{
    struct flow *f = from->data;
    if (n > 0 && is_guarded(f, piece->base, (size_t)n))
        return;
    if (n > 0)
        pass(f, piece->base, (size_t)n);
    else if (n == UV_EOF)
        pass_end(f);
    else if (n < 0)
        close_all(f->join, true);
}

// ---- the beginning

static void flow_init(struct flow *f, struct stream_join *j, uv_stream_t *from, uv_stream_t *to)
{
    *f = (struct flow){.join = j, .from = from, .to = to};
    from->data = f;
}

struct stream_join *stream_join_new(uv_stream_t *a, uv_stream_t *b, const void *first, size_t len,
                                    void (*on_closed)(void *ctx), void *ctx)
{
    struct stream_join *j = xcalloc(1, sizeof *j);
    j->on_closed = on_closed;
    j->ctx = ctx;
    j->open = 2;
    flow_init(&j->flows[0], j, a, b);
    flow_init(&j->flows[1], j, b, a);
    if (len)
        hold(&j->flows[0], first, len);
    else
        read_on(&j->flows[0]);
    read_on(&j->flows[1]);
    return j;
}

void stream_join_set_guard(struct stream_join *j, const struct stream_join_guard *guard)
{
    j->guard = guard;
}
