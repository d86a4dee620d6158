// SPDX-License-Identifier: Apache-2.0
// A new policy for the network process of a machine, over its control socket: one line of JSON
// there ({"policy": ...}), one line back ({} or {"error": "..."}).
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/machine.h"

#define POLICY_MS        10000 // from the connection to the answer
#define ANSWER_MAX_BYTES 4096

struct policy_call {
    struct machine *m; // borrowed; NULL once it is closed
    uv_pipe_t *pipe;   // owned; NULL before it is connected
    uv_write_t write;  // of `line`
    char *line;        // owned
    char answer[ANSWER_MAX_BYTES];
    size_t answer_len;
    struct deadline deadline;
    int handles; // not closed yet: the deadline's, and the pipe's or the connection under way
    bool over;
    struct err error;
    void (*done)(struct machine *m, const struct err *e);
};

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx);
static void on_written(uv_write_t *write, int status);
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

char *machine__policy_text(const struct machine_spec *spec)
{
    const struct net_policy closed = {0};
    json_t *json = net_policy_to_json(spec->policy ? spec->policy : &closed);
    char *text = json_to_string(json);
    json_decref(json);
    return text;
}

// ---- the end

static void on_handle_closed(struct policy_call *c)
{
    if (--c->handles > 0)
        return;
    struct machine *m = c->m;
    struct err e = c->error;
    void (*done)(struct machine *, const struct err *) = c->done;
    free(c->pipe);
    free(c->line);
    free(c);
    if (!m)
        return;
    m->policy_call = NULL;
    done(m, err_is(&e) ? &e : NULL);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    on_handle_closed(handle->data);
}

static void on_deadline_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct policy_call, deadline));
}

static void finish(struct policy_call *c)
{
    if (c->over)
        return;
    c->over = true;
    if (c->pipe)
        uv_close((uv_handle_t *)c->pipe, on_pipe_closed);
    deadline_close(&c->deadline, on_deadline_closed);
}

static void on_late(struct deadline *d)
{
    struct policy_call *c = container_of(d, struct policy_call, deadline);
    err_set(&c->error, ERR_TIMEOUT, "the network process did not take the policy in time");
    finish(c);
}

void machine__policy_abandon(struct machine *m)
{
    struct policy_call *c = steal(&m->policy_call);
    if (!c)
        return;
    c->m = NULL;
    finish(c);
}

// ---- 1. connect, 2. write, 3. read

void machine__send_policy(struct machine *m, const char *text,
                          void (*done)(struct machine *m, const struct err *e))
{
    struct policy_call *c = xcalloc(1, sizeof *c);
    *c = (struct policy_call){.m = m, .done = done, .handles = 2};
    c->line = str_printf("{\"policy\":%s}\n", text);
    deadline_init(&c->deadline, m->loop, on_late);
    m->policy_call = c;
    unix_stream_connect(m->loop, m->control, on_connected, c);
}

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx)
{
    struct policy_call *c = ctx;
    if (!stream) {
        err_set(&c->error, e->code, "%s", e->msg);
        finish(c);
        on_handle_closed(c);
        return;
    }
    c->pipe = (uv_pipe_t *)stream;
    c->pipe->data = c;
    if (c->over) { // abandoned meanwhile
        uv_close((uv_handle_t *)stream, on_pipe_closed);
        return;
    }
    uv_buf_t piece = {.base = c->line, .len = strlen(c->line)};
    deadline_arm(&c->deadline, POLICY_MS);
    uv_write(&c->write, stream, &piece, 1, on_written);
}

static void on_written(uv_write_t *write, int status)
{
    struct policy_call *c = container_of(write, struct policy_call, write);
    if (c->over)
        return;
    if (status == 0)
        status = uv_read_start((uv_stream_t *)c->pipe, on_alloc, on_read);
    if (status == 0)
        return;
    err_set(&c->error, ERR_UNAVAILABLE, "the network process cannot be told its policy: %s",
            uv_strerror(status));
    finish(c);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct policy_call *c = handle->data;
    *buf = (uv_buf_t){.base = c->answer + c->answer_len, .len = sizeof c->answer - c->answer_len};
}

static void on_line(struct policy_call *c, size_t len)
{
    json_t *json = json_parse(c->answer, len, &c->error);
    const char *error = json_string_value(json_object_get(json, "error"));
    if (error)
        err_set(&c->error, ERR_INTERNAL, "the network process refused the policy: %s", error);
    json_decref(json);
    finish(c);
}

// A line that fills the buffer makes on_alloc give no room, which libuv tells as an error.
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    struct policy_call *c = stream->data;
    c->answer_len += n > 0 ? (size_t)n : 0;
    const char *newline = memchr(c->answer, '\n', c->answer_len);
    if (newline) {
        on_line(c, (size_t)(newline - c->answer));
    } else if (n < 0) {
        err_set(&c->error, ERR_UNAVAILABLE,
                "the network process did not say that it took the policy");
        finish(c);
    }
}

// ---- for the owner

static void on_set(struct machine *m, const struct err *e)
{
    if (m->request)
        machine__answer(m, e);
}

static void set_it(struct machine *m, struct machine_request *r)
{
    machine__send_policy(m, r->text, on_set);
}

void machine_set_policy(struct machine *m, const struct net_policy *policy, machine_done_cb cb,
                        void *ctx)
{
    struct machine_request *r = machine__request_new(m, set_it, ctx);
    r->on_done = cb;
    r->text = machine__policy_text(&(struct machine_spec){.policy = policy});
    machine__request(r);
}
