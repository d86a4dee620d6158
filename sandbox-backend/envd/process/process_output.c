// SPDX-License-Identifier: Apache-2.0
// A process's stdout and stderr, or its terminal: read while there is output and no listener is
// blocked.
#include <errno.h>
#include <unistd.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process/process_internal.h"

// Reads of one stream in one wake-up of the loop, so that no command starves another.
#define READS_PER_WAKEUP 2
// After the exit: enough for a full pipe, so that all output of the command is read, but bounded,
// as a grandchild may write on.
#define READS_PER_DRAIN 64

static void deliver(struct process_output *o, const char *data, size_t len)
{
    struct process_listener *next;
    for (struct process_listener *l = LIST_FIRST(&o->process->listeners); l; l = next) {
        next = LIST_NEXT(l, link);
        l->on_output(l, o->stream, data, len);
    }
}

static ssize_t read_retrying(int fd, char *to, size_t room)
{
    ssize_t n;
    do
        n = read(fd, to, room);
    while (n < 0 && errno == EINTR);
    return n;
}

// Read what is available, up to the size of one event. A terminal returns at most a page for a
// read, and an error at its end. Return 0 at the end, -1 if nothing is available now.
static ssize_t read_event(const struct process_output *o, char *chunk)
{
    size_t room = o->stream == PROCESS_PTY ? LIMIT_PTY_CHUNK_BYTES : LIMIT_OUTPUT_CHUNK_BYTES;
    ssize_t n = read_retrying(o->fd, chunk, room);
    if (n < 0)
        return errno == EAGAIN ? -1 : 0;
    size_t got = (size_t)n;
    while (o->stream == PROCESS_PTY && n > 0 && got < room) {
        n = read_retrying(o->fd, chunk + got, room - got);
        got += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)got;
}

enum reading {
    READ_ALL /* nothing is left now */,
    READ_PART,
    READ_FULL /* the size of an event */
};

static enum reading read_once(struct process_output *o)
{
    static char chunk[LIMIT_OUTPUT_CHUNK_BYTES];
    ssize_t n = read_event(o, chunk);
    if (n == 0)
        process__output_close(o);
    if (n <= 0)
        return READ_ALL;
    o->process->output_ms = (int64_t)uv_now(o->process->table->loop);
    deliver(o, chunk, (size_t)n);
    return (size_t)n == sizeof chunk ? READ_FULL : READ_PART;
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; // read(2) reports an error
    (void)events;
    struct process_output *o = container_of(poll, struct process_output, poll);
    for (int i = 0; i < READS_PER_WAKEUP && o->fd >= 0 && read_once(o) == READ_FULL; i++)
        ;
    process__check_end(o->process);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct process_output *o = container_of((uv_poll_t *)handle, struct process_output, poll);
    process__handle_closed(o->process);
}

void process__output_open(struct process *p, enum process_stream stream, int fd)
{
    struct process_output *o = &p->outputs[stream];
    *o = (struct process_output){.process = p, .stream = stream, .fd = fd};
    if (fd < 0)
        return;
    uv_poll_init(p->table->loop, &o->poll, fd); // makes it non-blocking
    p->open_handles++;
}

bool process__output_is_open(const struct process *p)
{
    for (int i = 0; i < PROCESS_STREAMS; i++)
        if (p->outputs[i].fd >= 0)
            return true;
    return false;
}

void process__output_close(struct process_output *o)
{
    if (o->fd < 0)
        return;
    uv_close((uv_handle_t *)&o->poll, on_poll_closed);
    close(steal_fd(&o->fd));
}

void process__output_update(struct process *p)
{
    bool blocked = process__is_blocked(p);
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        struct process_output *o = &p->outputs[i];
        if (o->fd < 0 || uv_is_active((uv_handle_t *)&o->poll) == !blocked)
            continue;
        if (blocked)
            uv_poll_stop(&o->poll);
        else
            uv_poll_start(&o->poll, UV_READABLE, on_readable);
    }
}

void process__output_drain(struct process *p)
{
    for (int i = 0; i < PROCESS_STREAMS; i++) {
        struct process_output *o = &p->outputs[i];
        for (int n = 0; n < READS_PER_DRAIN && o->fd >= 0 && !process__is_blocked(p); n++)
            if (read_once(o) == READ_ALL)
                break;
    }
}
