// SPDX-License-Identifier: Apache-2.0
// The client and its life: made, used by operations, closed when the last of them has ended.
//
// Theory of operation. An operation is one task of the caller: create.c, list.c, control.c,
// snapshot.c, network.c, ports.c and volumes.c ask the control plane; command.c, files.c, watch.c
// and envd_call.c ask envd; stream.c asks another server in the sandbox. An operation makes one or
// several calls. A call (call.c) has three steps: find the server (identify.c) and the sandbox
// (access.c), send the request, read the answer (answer.c). Its HTTP round trips (roundtrip.c)
// start the local daemon when it does not run (daemon_start.c). The dialect says where a request
// goes and what the server lacks; retry.c says which refusals are temporary.
//
// Calls begin, and failed ones end, from the queue here in the loop's next turn, so nothing
// completes inside the function that started it.
#include "sandbox-backend/client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/daemon_start.h"

#define HELD_FIRST_MS  500
#define HELD_ALIVE_MS  5000
#define HELD_ENDING_MS 15000

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
    c->dialect = &dialect_cubbyd;
    c->socket = home_path(opts->home, "cubbyd.sock");
    c->starter = daemon_start_new(c->loop, opts->home, c->socket, opts->daemon_path);
}

static void open_remote(struct client *c, const struct client_opts *opts)
{
    c->dialect = opts->dialect ? dialect_find(opts->dialect) : &dialect_e2b;
    if (!opts->dialect && !client__is_e2b(c->api_url))
        c->identify = identify_new(c);
}

static char *copy(const char *s)
{
    return s && *s ? xstrdup(s) : NULL;
}

// "http://10.0.0.5:8081": the scheme of sandboxes' host names, and where they lead.
static void take_proxy(struct client *c, const char *url)
{
    c->proxy_scheme = url && str_starts(url, "http://") ? "http" : "https";
    const char *host = url ? strstr(url, "://") : NULL;
    if (!host)
        return;
    host += 3;
    size_t len = strcspn(host, "/");
    const char *port = memrchr(host, ':', len);
    if (port && !memchr(port, ']', len - (size_t)(port - host)))
        c->connect_to = xstrndup(host, len);
    else
        c->connect_to =
            str_printf("%.*s:%s", (int)len, host, str_eq(c->proxy_scheme, "http") ? "80" : "443");
}

struct client *client_new(uv_loop_t *loop, const struct client_opts *opts)
{
    struct client *c = xcalloc(1, sizeof *c);
    c->loop = loop;
    c->queue_end = &c->queued;
    c->times = (struct stream_times){
        .silence = ENVD_SILENCE_MS,
        .held_first = HELD_FIRST_MS,
        .held_alive = HELD_ALIVE_MS,
        .held_ending = HELD_ENDING_MS,
    };
    c->api_url = without_slash(opts->api_url);
    c->sandbox_url = without_slash(opts->sandbox_url);
    c->cube_master = without_slash(opts->cube_master);
    c->api_key = copy(opts->api_key);
    c->domain = copy(opts->domain);
    c->user = copy(opts->user);
    c->ca_file = copy(opts->ca_file);
    network_spec(&c->network, opts->network, NULL, NULL, &(struct err){0}); // was checked
    take_proxy(c, opts->proxy_url);
    if (c->api_url)
        open_remote(c, opts);
    else
        open_local(c, opts);
    uv_timer_init(loop, &c->kick);
    c->kick.data = c;
    return c;
}

static int check_url(const char *what, const char *url, struct err *e)
{
    const char *host = url ? strstr(url, "://") : NULL;
    if (!url || !*url)
        return 0;
    bool is_http = str_starts(url, "http://") || str_starts(url, "https://");
    if (!is_http || !host[3] || strchr("/:?#", host[3]) || strpbrk(url, "@?# \t\r\n"))
        return err_set(e, ERR_INVALID,
                       "%s must be a URL such as https://sandboxes.example, not "
                       "\"%.100s\"",
                       what, url);
    return 0;
}

int client_opts_check(const struct client_opts *opts, struct err *e)
{
    if (check_url("the backend", opts->api_url, e) < 0 ||
        check_url("the URL of the sandboxes", opts->sandbox_url, e) < 0 ||
        check_url("the proxy of the sandboxes", opts->proxy_url, e) < 0 ||
        check_url("CubeMaster's address", opts->cube_master, e) < 0)
        return -1;
    if (opts->dialect && !dialect_find(opts->dialect))
        return err_set(e, ERR_INVALID, "unknown dialect \"%.40s\"; use cubbyd, e2b or cube",
                       opts->dialect);
    if (opts->ca_file && access(opts->ca_file, R_OK) < 0)
        return err_sys(e, errno, "read the backend's certificate authorities in %s", opts->ca_file);
    json_t *network;
    if (network_spec(&network, opts->network, NULL, NULL, e) < 0)
        return -1;
    json_decref(network);
    if (opts->user && (!*opts->user || strchr(opts->user, ':')))
        return err_set(e, ERR_INVALID, "\"%.80s\" is not a valid user name", opts->user);
    return 0;
}

bool client_slides(const struct client *c)
{
    return c->dialect->slides && (!c->identify || identify_is_done(c->identify));
}

bool client_is_there(const struct client *c)
{
    return !c->starter || daemon_start_listens(c->starter);
}

void client_cancel(struct client_op *op)
{
    op->cancel(op);
}

// ---- for the rest of the folder
struct http_client *client__http(struct client *c)
{
    if (!c->http) // made late: without curl a program starts 10 ms sooner
        c->http = http_client_new(c->loop);
    return c->http;
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

// ---- operations of one call
static void cancel_ask(struct client_op *base)
{
    call_cancel(container_of(base, struct ask, base)->call);
}

struct ask *ask_new(struct client *c, const struct ask *want)
{
    struct ask *op = xmemdup(want, sizeof *want);
    op_begin(&op->base, c, cancel_ask);
    return op;
}

static void on_answer(int status, const char *body, size_t len, const struct err *error, void *ctx)
{
    (void)status;
    struct ask *op = ctx;
    const struct ask done = *op;
    struct err e = error ? *error : ERR_INIT;
    json_t *info = error || !op->json_cb ? NULL : json_parse(body, len, &e);
    if (info && op->is_sound && !op->is_sound(info))
        err_set(&e, ERR_INTERNAL, "%s", op->unsound);
    if (!error)
        err_wrap(&e, "the answer of %s", op->of ? op->of : op->base.client->dialect->name);
    op_end(&op->base);
    free(op);
    if (done.json_cb)
        done.json_cb(err_is(&e) ? NULL : info, err_is(&e) ? &e : NULL, done.ctx);
    else
        done.done_cb(err_is(&e) ? &e : NULL, done.ctx);
    json_decref(info);
}

const struct call_events ASK_EVENTS = {.on_end = on_answer};

struct client_op *ask_start(struct client *c, const struct call_opts *opts, const struct ask *want)
{
    struct ask *op = ask_new(c, want);
    op->call = call_start(c, opts, &ASK_EVENTS, op);
    return &op->base;
}

char *client__about(const char *id, const char *suffix)
{
    struct buf target = BUF_INIT;
    buf_adds(&target, "/sandboxes/");
    percent_encode(&target, id, false);
    buf_adds(&target, suffix);
    return buf_take(&target);
}

// ---- the queue
void client__kick(struct client *c)
{
    uv_timer_start(&c->kick, on_kick, 0, 0);
}

static void on_kick(uv_timer_t *timer)
{
    struct client *c = timer->data;
    // Calls that are queued meanwhile wait for the next turn, so that other events come first.
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
    expiry_forget_all(c);
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
    if (c->identify)
        identify_free(c->identify);
    free(c->api_url);
    free(c->sandbox_url);
    free(c->domain);
    free(c->cube_master);
    free(c->user);
    free(c->ca_file);
    json_decref(c->network);
    free(c->connect_to);
    free(c->api_key);
    free(c->socket);
    free(c);
    if (on_closed)
        on_closed(ctx);
}
