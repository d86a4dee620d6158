// SPDX-License-Identifier: Apache-2.0
// MCP over stdin and stdout: one message a line, in UTF-8, nothing else on stdout.
//
// Theory of operation. Input comes from a libuv stream (pipe, socket or terminal) or, for a regular
// file, from reads on libuv's thread pool. A line longer than LIMIT_STDIO_LINE_BYTES is dropped up
// to its end and reported. Output is queued as whole lines on one stream, so lines never mix; to a
// regular file it is written at once. While more than WRITE_HIGH bytes wait to be written, reading
// stops, so a client that does not read its answers cannot fill the memory. A failed write counts
// as the end of input, because the peer is gone; a failed write to a regular file, whose disk may
// be full, is only logged.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mcp-server/protocol/transport_stdio.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

#define READ_CHUNK ((size_t)64 * 1024)
#define WRITE_HIGH ((size_t)4 * 1024 * 1024)

// A stream, or a regular file, in either direction.
struct end {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tty_t tty;
    } u;
    int fd;         // of a regular file; -1 for a stream, which owns its own
    bool is_stream; // u is open
};

struct transport_stdio {
    struct outlet outlet; // first
    uv_loop_t *loop;
    struct end in, out;
    const struct transport_events *events;
    void *ctx;
    struct buf line; // the incomplete line
    bool skipping;   // the line is too long: drop it up to its end
    bool paused;     // too much is unsent
    bool eof;        // reported
    bool closing;
    uv_fs_t read_req; // regular file
    bool read_busy;
    char *chunk;
    int handles; // that must close before this may be freed
};

struct write {
    uv_write_t req;
    struct transport_stdio *t;
    char *line; // owned
};

static void read_on(struct transport_stdio *t);
static void maybe_finish(struct transport_stdio *t);

// ---- 1. lines in

static void report_eof(struct transport_stdio *t)
{
    if (t->eof)
        return;
    t->eof = true;
    t->events->on_eof(t->ctx);
}

static void deliver(struct transport_stdio *t, const char *data, size_t len)
{
    if (len > 0 && data[len - 1] == '\r')
        len--;
    bool blank = true;
    for (size_t i = 0; i < len && blank; i++)
        blank = data[i] == ' ' || data[i] == '\t' || data[i] == '\r';
    if (!blank && !t->closing)
        t->events->on_message(&t->outlet, data, len, t->ctx);
}

static void line_end(struct transport_stdio *t, const char *data, size_t len)
{
    if (t->skipping) {
        t->skipping = false;
        if (!t->closing)
            t->events->on_message(&t->outlet, NULL, 0, t->ctx);
    } else if (t->line.len == 0) {
        deliver(t, data, len);
    } else if (!buf_try_add(&t->line, data, len, LIMIT_STDIO_LINE_BYTES)) {
        t->events->on_message(&t->outlet, NULL, 0, t->ctx);
    } else {
        deliver(t, t->line.data, t->line.len);
    }
    if (t->line.cap > READ_CHUNK) { // free the memory of a large message
        len = t->line.len;
        buf_fini(&t->line);
        mem_give_back(len);
    } else {
        buf_clear(&t->line);
    }
}

static void on_bytes(struct transport_stdio *t, const char *data, size_t len)
{
    while (len > 0) {
        const char *newline = memchr(data, '\n', len);
        if (!newline) {
            if (!t->skipping && !buf_try_add(&t->line, data, len, LIMIT_STDIO_LINE_BYTES)) {
                t->skipping = true;
                buf_fini(&t->line);
            }
            return;
        }
        size_t n = (size_t)(newline - data);
        line_end(t, data, n);
        data += n + 1;
        len -= n + 1;
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct transport_stdio *t = handle->data;
    *out = uv_buf_init(t->chunk, READ_CHUNK);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct transport_stdio *t = stream->data;
    if (n > 0) {
        on_bytes(t, buffer->base, (size_t)n);
    } else if (n < 0) {
        uv_read_stop(stream);
        report_eof(t);
    }
}

static void on_file_read(uv_fs_t *req)
{
    struct transport_stdio *t = req->data;
    ssize_t n = req->result;
    uv_fs_req_cleanup(req);
    t->read_busy = false;
    if (t->closing) {
        maybe_finish(t);
    } else if (n > 0) {
        on_bytes(t, t->chunk, (size_t)n);
        read_on(t);
    } else {
        report_eof(t);
    }
}

static int read_start(struct transport_stdio *t)
{
    if (t->in.is_stream)
        return uv_read_start(&t->in.u.stream, on_alloc, on_read);
    uv_buf_t into = uv_buf_init(t->chunk, READ_CHUNK);
    t->read_req.data = t;
    int rc = uv_fs_read(t->loop, &t->read_req, t->in.fd, &into, 1, -1, on_file_read);
    t->read_busy = rc == 0;
    return rc;
}

static void read_on(struct transport_stdio *t)
{
    if (t->closing || t->eof || t->paused || t->read_busy)
        return;
    int rc = read_start(t);
    if (rc < 0 && rc != UV_EALREADY)
        report_eof(t);
}

// ---- 2. lines out

static size_t unsent(const struct transport_stdio *t)
{
    return t->out.is_stream ? uv_stream_get_write_queue_size(&t->out.u.stream) : 0;
}

static void on_written(uv_write_t *req, int status)
{
    struct write *w = container_of(req, struct write, req);
    struct transport_stdio *t = w->t;
    free(w->line);
    free(w);
    if (status < 0 && status != UV_ECANCELED && !t->closing) {
        log_debug("stdio.write", "error=%s", uv_strerror(status));
        report_eof(t);
    }
    if (t->paused && unsent(t) < WRITE_HIGH / 2) {
        t->paused = false;
        read_on(t);
    }
    if (t->closing)
        maybe_finish(t);
}

static void send_line(struct transport_stdio *t, char *line, size_t len)
{
    struct write *w = xmalloc(sizeof *w);
    *w = (struct write){.t = t, .line = line};
    uv_buf_t bytes = uv_buf_init(line, (unsigned)len);
    int rc = uv_write(&w->req, &t->out.u.stream, &bytes, 1, on_written);
    if (rc < 0) {
        log_debug("stdio.write", "error=%s", uv_strerror(rc));
        free(w->line);
        free(w);
        return;
    }
    if (unsent(t) > WRITE_HIGH && !t->paused) {
        t->paused = true;
        if (t->in.is_stream)
            uv_read_stop(&t->in.u.stream);
    }
}

static void on_send(struct outlet *o, const json_t *message)
{
    struct transport_stdio *t = container_of(o, struct transport_stdio, outlet);
    if (t->closing)
        return;
    struct buf text = BUF_INIT;
    json_to_buf(&text, message);
    buf_addc(&text, '\n');
    if (t->out.is_stream) {
        size_t len = text.len;
        send_line(t, buf_take(&text), len);
        return;
    }
    struct err e = ERR_INIT;
    if (fd_write_all(t->out.fd, text.data, text.len, &e) < 0)
        log_error("stdio.write", "error=%s", e.msg);
    buf_fini(&text);
}

static bool on_is_busy(struct outlet *o)
{
    return unsent(container_of(o, struct transport_stdio, outlet)) > 0;
}

// ---- 3. opening and closing

static int end_open(struct transport_stdio *t, struct end *end, int fd, struct err *e)
{
    uv_handle_type type = uv_guess_handle(fd);
    if (type == UV_FILE) {
        end->fd = fd;
        return 0;
    }
    int rc = type == UV_TTY ? uv_tty_init(t->loop, &end->u.tty, fd, 0)
                            : uv_pipe_init(t->loop, &end->u.pipe, 0);
    if (rc == 0 && type != UV_TTY) {
        rc = uv_pipe_open(&end->u.pipe, fd);
        if (rc < 0) {
            end->u.handle.data = NULL;
            uv_close(&end->u.handle, NULL);
        }
    }
    if (rc < 0)
        return err_sys(e, -rc, "open descriptor %d as a stream", fd);
    end->is_stream = true;
    end->u.handle.data = t;
    t->handles++;
    return 0;
}

struct transport_stdio *transport_stdio_open(uv_loop_t *loop, int in, int out,
                                             const struct transport_events *events, void *ctx,
                                             struct err *e)
{
    struct transport_stdio *t = xmalloc(sizeof *t);
    *t = (struct transport_stdio){
        .outlet = {.send = on_send, .is_busy = on_is_busy},
        .loop = loop,
        .in = {.fd = -1},
        .out = {.fd = -1},
        .events = events,
        .ctx = ctx,
        .chunk = xmalloc(READ_CHUNK),
    };
    // An error here ends the program, so nothing is freed.
    if (end_open(t, &t->in, in, e) < 0 || end_open(t, &t->out, out, e) < 0)
        return NULL;
    int rc = read_start(t);
    if (rc < 0) {
        err_sys(e, -rc, "read stdin");
        return NULL;
    }
    return t;
}

struct outlet *transport_stdio_outlet(struct transport_stdio *t)
{
    return &t->outlet;
}

static void on_closed(uv_handle_t *handle)
{
    struct transport_stdio *t = handle->data;
    t->handles--;
    maybe_finish(t);
}

static void end_close(struct end *end)
{
    if (end->is_stream && !uv_is_closing(&end->u.handle))
        uv_close(&end->u.handle, on_closed);
    if (end->fd >= 0)
        close(end->fd);
    end->fd = -1;
}

// Close the handles; free the transport when no callback is left.
static void maybe_finish(struct transport_stdio *t)
{
    if (t->read_busy || unsent(t) > 0)
        return;
    end_close(&t->in);
    end_close(&t->out);
    if (t->handles > 0)
        return;
    buf_fini(&t->line);
    free(t->chunk);
    free(t);
}

void transport_stdio_close(struct transport_stdio *t)
{
    t->closing = true;
    if (t->in.is_stream)
        uv_read_stop(&t->in.u.stream);
    maybe_finish(t);
}
