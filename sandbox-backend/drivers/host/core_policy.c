// SPDX-License-Identifier: Apache-2.0
// Setting a new policy in a machine's netd, over its control socket (netd/control.h).
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/core.h"

#define POLICY_MS        10000 // from the connection to the answer
#define ANSWER_MAX_BYTES 4096

struct policy_call {
    struct machine_core *core; // borrowed; NULL once the machine is closed
    uv_pipe_t *pipe;           // owned; NULL before it is connected
    uv_write_t write;          // of `line`
    char *line;                // owned
    int egress_fd;             // owned; goes with the line; -1: none
    char answer[ANSWER_MAX_BYTES];
    size_t answer_len;
    struct deadline deadline;
    int handles; // handles that are still open: the deadline, and the pipe or the pending
                 // connection
    bool over;
    bool sets_egress; // the answer must repeat it
    struct err error;
    void (*done)(struct machine_core *c, const struct err *e);
};

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx);
static void on_written(uv_write_t *write, int status);
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

char *core__policy_text(const struct net_policy *policy)
{
    const struct net_policy closed = {0};
    json_t *json = net_policy_to_json(policy ? policy : &closed);
    char *text = json_to_string(json);
    json_decref(json);
    return text;
}

// ---- the end

static void on_handle_closed(struct policy_call *c)
{
    if (--c->handles > 0)
        return;
    struct machine_core *core = c->core;
    struct err e = c->error;
    void (*done)(struct machine_core *, const struct err *) = c->done;
    mem_close_fd(&c->egress_fd);
    free(c->pipe);
    free(c->line);
    free(c);
    if (!core)
        return;
    core->policy_call = NULL;
    done(core, err_is(&e) ? &e : NULL);
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
    err_set(&c->error, ERR_TIMEOUT, "the network process did not confirm the policy in time");
    finish(c);
}

void core__policy_abandon(struct machine_core *core)
{
    struct policy_call *c = steal(&core->policy_call);
    if (!c)
        return;
    c->core = NULL;
    finish(c);
}

// ---- 1. connect, 2. write, 3. read

void core__policy_send(struct machine_core *core, const struct policy_message *message)
{
    struct policy_call *c = xcalloc(1, sizeof *c);
    int fd = message->sets_egress ? message->egress_fd : -1;
    *c = (struct policy_call){.core = core, .done = message->done, .handles = 2, .egress_fd = fd};
    c->sets_egress = message->sets_egress;
    char *egress auto_free = fd < 0 ? xstrdup(message->sets_egress ? ",\"egress\":false" : "")
                                    : str_printf(",\"egress\":\"%s\"", message->egress_use);
    c->line = str_printf("{\"policy\":%s%s}\n", message->text, egress);
    deadline_init(&c->deadline, core->loop, on_late);
    core->policy_call = c;
    unix_stream_connect(core->loop, core->control, on_connected, c);
}

// Send egress's socket with the first byte of the line; libuv passes only streams on. Return the
// bytes that were sent. On failure netd refuses the line, because it got no descriptor.
static size_t send_fd(struct policy_call *c)
{
    uv_os_fd_t to;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec piece = {.iov_base = c->line, .iov_len = 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &c->egress_fd, sizeof(int));
    if (uv_fileno((uv_handle_t *)c->pipe, &to) != 0 ||
        sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
        return 0;
    close(steal_fd(&c->egress_fd));
    return 1;
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
    size_t sent = c->egress_fd < 0 ? 0 : send_fd(c);
    uv_buf_t piece = {.base = c->line + sent, .len = strlen(c->line) - sent};
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
    err_set(&c->error, ERR_UNAVAILABLE, "the policy cannot be sent to the network process: %s",
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
    if (!error && c->sets_egress && !json_object_get(json, "egress"))
        err_set(
            &c->error, ERR_UNIMPLEMENTED,
            "the sandbox's network process is of an older version, which cannot change rules or "
            "a proxy; hibernate the sandbox and wake it once, then try again");
    if (error)
        err_set(&c->error, ERR_INTERNAL, "the network process refused the policy: %s", error);
    json_decref(json);
    finish(c);
}

// If a line fills the buffer, on_alloc gives no room, which libuv reports as an error.
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
                "the network process ended before it confirmed the policy");
        finish(c);
    }
}

// ---- calls of the driver and of the daemon

void core_policy_send(struct machine_core *core,
                      void (*done)(struct machine_core *core, const struct err *e))
{
    core__policy_send(core, &(struct policy_message){.text = core->policy, .done = done});
}

static void on_set(struct machine_core *core, const struct err *e)
{
    if (core->request)
        core_answer(core, e);
}

static void serve_policy(struct machine_core *core, struct machine_request *r)
{
    struct err e = ERR_INIT;
    if (core->netd) {
        core__policy_send(core, &(struct policy_message){.text = r->text, .done = on_set});
        return;
    }
    err_set(&e, ERR_UNIMPLEMENTED, "this sandbox has no network, so it has no network policy");
    core_answer(core, &e);
}

void core_set_policy(struct machine *machine, const struct net_policy *policy, machine_done_cb cb,
                     void *ctx)
{
    struct machine_request *r = core_request_new(core_of(machine), serve_policy, ctx);
    r->on_done = cb;
    r->text = core__policy_text(policy);
    core_request(r);
}
