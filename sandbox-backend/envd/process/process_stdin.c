// SPDX-License-Identifier: Apache-2.0
// A process's stdin: a limited queue of bytes, written as the process reads them.
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process/process_internal.h"

#define STDIN_QUEUE_MAX (2 * LIMIT_ENVELOPE_BYTES)

struct stdin_write {
    STAILQ_ENTRY(stdin_write) link;
    process_written_cb cb; // NULL when the caller has left
    void *ctx;
    size_t len;
    size_t done;
    char data[];
};

static void on_writable(uv_poll_t *poll, int status, int events);

static void complete_first(struct process_input *in, const struct err *e)
{
    struct stdin_write *w = STAILQ_FIRST(&in->writes);
    STAILQ_REMOVE_HEAD(&in->writes, link);
    in->queued -= w->len;
    process_written_cb cb = w->cb;
    void *ctx = w->ctx;
    free(w);
    if (cb)
        cb(e, ctx);
}

static void on_input_closed(uv_handle_t *handle)
{
    struct process_input *in = container_of((uv_poll_t *)handle, struct process_input, poll);
    process__handle_closed(container_of(in, struct process, input));
}

void process__stdin_close(struct process *p, const struct err *why)
{
    struct process_input *in = &p->input;
    if (in->fd < 0)
        return;
    if (in->has_poll)
        uv_close((uv_handle_t *)&in->poll, on_input_closed);
    close(steal_fd(&in->fd));
    while (!STAILQ_EMPTY(&in->writes))
        complete_first(in, why);
}

static void watch(struct process *p)
{
    struct process_input *in = &p->input;
    if (!in->has_poll) {
        uv_poll_init(p->table->loop, &in->poll, in->fd); // makes it non-blocking
        in->has_poll = true;
        p->open_handles++;
    }
    uv_poll_start(&in->poll, UV_WRITABLE, on_writable);
}

// Write as much of the first in the queue as the pipe takes. False if the pipe is full.
static bool write_first(struct process *p)
{
    struct process_input *in = &p->input;
    struct stdin_write *w = STAILQ_FIRST(&in->writes);
    ssize_t n = write(in->fd, w->data + w->done, w->len - w->done);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n < 0 && errno != EINTR) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_INTERNAL, "error writing to stdin: %s", strerror(errno));
        process__stdin_close(p, &e);
        return true;
    }
    w->done += n > 0 ? (size_t)n : 0;
    if (w->done == w->len)
        complete_first(in, NULL);
    return true;
}

static void on_writable(uv_poll_t *poll, int status, int events)
{
    (void)status; // write(2) reports an error
    (void)events;
    struct process_input *in = container_of(poll, struct process_input, poll);
    struct process *p = container_of(in, struct process, input);
    if (!STAILQ_EMPTY(&in->writes))
        write_first(p);
    if (in->fd < 0 || !STAILQ_EMPTY(&in->writes))
        return;
    uv_poll_stop(&in->poll);
    if (in->closing)
        process__stdin_close(p, NULL);
}

int process_write(struct process *p, const void *data, size_t len, process_written_cb cb, void *ctx,
                  struct err *e)
{
    struct process_input *in = &p->input;
    if (in->fd < 0 || in->closing)
        return err_set(e, ERR_INTERNAL, "stdin not enabled or closed");
    if (in->queued + len > STDIN_QUEUE_MAX)
        return err_set(e, ERR_LIMIT, "more than %d bytes wait for the process to read its stdin",
                       STDIN_QUEUE_MAX);
    struct stdin_write *w = try_malloc(sizeof *w + len);
    if (!w)
        return err_set(e, ERR_LIMIT, "not enough memory for %zu bytes of stdin", len);
    *w = (struct stdin_write){.cb = cb, .ctx = ctx, .len = len};
    memcpy(w->data, data, len);
    STAILQ_INSERT_TAIL(&in->writes, w, link);
    in->queued += len;
    watch(p);
    return 0;
}

void process_forget_write(struct process *p, void *ctx)
{
    struct stdin_write *w;
    STAILQ_FOREACH (w, &p->input.writes, link)
        if (w->ctx == ctx)
            w->cb = NULL;
}

int process_close_stdin(struct process *p, struct err *e)
{
    if (p->pty)
        return err_set(
            e, ERR_UNKNOWN,
            "a terminal's stdin cannot be closed: send Ctrl+D (0x04) to its pty instead");
    p->input.closing = true;
    if (STAILQ_EMPTY(&p->input.writes))
        process__stdin_close(p, NULL);
    return 0;
}
