// SPDX-License-Identifier: Apache-2.0
// The client and its life: made, used by operations, closed when the last of them has ended.
//
// How the folder is built. An operation (control.c, rpc.c, command.c, files.c) is what the user
// asked for. It is made of one or several calls (call.c), each an HTTP exchange with all that must
// come before it: the local daemon runs (daemon_start.c), the sandbox's token is known (access.c).
// The dialect says where a call goes; answer.c says what a refusal means.
//
// Calls begin, and failed ones end, from the queue here, with the loop's next turn: so nothing
// completes inside the function that started it, whatever goes wrong how early.
#include "sandbox-backend/client/client.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/daemon_start.h"
#include "sandbox-backend/client/state.h"

static void on_kick(uv_timer_t *timer);
static void close_parts(struct client *c);
static void on_starter_closed(void *ctx);
static void on_http_closed(void *ctx);
static void on_kick_closed(uv_handle_t *handle);

static char *without_slash(const char *url)
{
    if (!url || !*url)
        return NULL;
    size_t len = strlen(url);
    while (len && url[len - 1] == '/')
        len--;
    return xstrndup(url, len);
}

static void open_local(struct client *c, const struct client_opts *opts)
{
    c->dialect = &dialect_local;
    c->socket = home_path(opts->home, "cubbyd.sock");
    c->starter = daemon_start_new(c->loop, opts->home, c->socket, opts->daemon_path);
}

struct client *client_new(uv_loop_t *loop, const struct client_opts *opts)
{
    struct client *c = xcalloc(1, sizeof *c);
    c->loop = loop;
    c->queue_end = &c->queued;
    c->api_url = without_slash(opts->api_url);
    c->sandbox_url = without_slash(opts->sandbox_url);
    c->api_key = opts->api_key ? xstrdup(opts->api_key) : NULL;
    if (c->api_url)
        c->dialect = &dialect_e2b;
    else
        open_local(c, opts);
    uv_timer_init(loop, &c->kick);
    c->kick.data = c;
    return c;
}

bool client_is_there(const struct client *c)
{
    return !c->starter || daemon_start_is_done(c->starter);
}

void client_cancel(struct client_op *op)
{
    op->cancel(op);
}

// ---- operations
void op_begin(struct client_op *op, struct client *c, void (*cancel)(struct client_op *op))
{
    op->client = c;
    op->cancel = cancel;
    op->prev = NULL;
    op->next = c->ops;
    if (op->next)
        op->next->prev = op;
    c->ops = op;
}

void op_end(struct client_op *op)
{
    struct client *c = op->client;
    if (op->prev)
        op->prev->next = op->next;
    else
        c->ops = op->next;
    if (op->next)
        op->next->prev = op->prev;
    if (c->closing)
        client__kick(c);
}

// ---- the queue
void client__kick(struct client *c)
{
    uv_timer_start(&c->kick, on_kick, 0, 0);
}

static void on_kick(uv_timer_t *timer)
{
    struct client *c = timer->data;
    // What is queued while these run waits for another turn, so that the loop's others come first.
    struct call *call = c->queued;
    c->queued = NULL;
    c->queue_end = &c->queued;
    while (call) {
        struct call *next = call__unqueue(call);
        call__turn(call);
        call = next;
    }
    if (c->closing && !c->ops)
        close_parts(c);
}

// ---- closing: the operations end, then the daemon's starter, HTTP, the timer
void client_close(struct client *c, void (*on_closed)(void *ctx), void *ctx)
{
    c->closing = true;
    c->on_closed = on_closed;
    c->closed_ctx = ctx;
    for (struct client_op *op = c->ops; op; op = op->next)
        op->cancel(op);
    client__kick(c);
}

static void close_parts(struct client *c)
{
    uv_timer_stop(&c->kick);
    if (c->starter)
        daemon_start_close(c->starter, on_starter_closed, c);
    else
        on_starter_closed(c);
}

static void on_starter_closed(void *ctx)
{
    struct client *c = ctx;
    if (c->http)
        http_client_close(c->http, on_http_closed, c);
    else
        on_http_closed(c);
}

static void on_http_closed(void *ctx)
{
    struct client *c = ctx;
    uv_close((uv_handle_t *)&c->kick, on_kick_closed);
}

static void on_kick_closed(uv_handle_t *handle)
{
    struct client *c = handle->data;
    void (*on_closed)(void *ctx) = c->on_closed;
    void *ctx = c->closed_ctx;
    access_cache_fini(&c->accesses);
    free(c->api_url);
    free(c->sandbox_url);
    free(c->api_key);
    free(c->socket);
    free(c);
    if (on_closed)
        on_closed(ctx);
}
