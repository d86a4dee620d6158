// SPDX-License-Identifier: Apache-2.0
// The client and its life: made, used by operations, closed when the last of them has ended.
//
// How the folder is built. An operation (create.c, list.c, control.c, network.c, ports.c, stats.c,
// branch.c, snapshot.c, rpc.c, command.c, files.c, watch.c, stream.c) is what the user asked for.
// It is made of one or several calls (call.c), each an HTTP exchange with all that must come before
// it: the local daemon runs (daemon_start.c), or it is known which server this is (identify.c); how
// the sandbox is reached is known (access.c). The dialect says where a call goes and what the
// server lacks; answer.c says what a refusal means, and retry.c whether it is one that will pass.
//
// Calls begin, and failed ones end, from the queue here, with the loop's next turn: so nothing
// completes inside the function that started it, whatever goes wrong how early.
#include "sandbox-backend/client/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/daemon_start.h"
#include "sandbox-backend/client/expiry.h"
#include "sandbox-backend/client/identify.h"
#include "sandbox-backend/client/network_spec.h"
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

// "http://10.0.0.5:8081": how sandboxes' names are spoken to, and where they lead.
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
    c->api_url = without_slash(opts->api_url);
    c->sandbox_url = without_slash(opts->sandbox_url);
    c->cube_master = without_slash(opts->cube_master);
    c->api_key = copy(opts->api_key);
    c->domain = copy(opts->domain);
    c->user = copy(opts->user);
    c->ca_file = copy(opts->ca_file);
    network_spec(&c->network, opts->network, NULL, NULL, &(struct err){0}); // it was checked
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
        check_url("the sandboxes' URL", opts->sandbox_url, e) < 0 ||
        check_url("the sandboxes' proxy", opts->proxy_url, e) < 0 ||
        check_url("CubeMaster's address", opts->cube_master, e) < 0)
        return -1;
    if (opts->dialect && !dialect_find(opts->dialect))
        return err_set(e, ERR_INVALID, "\"%.40s\" is no dialect; there are cubbyd, e2b and cube",
                       opts->dialect);
    if (opts->ca_file && access(opts->ca_file, R_OK) < 0)
        return err_sys(e, errno, "read the backend's authorities in %s", opts->ca_file);
    json_t *network;
    if (network_spec(&network, opts->network, NULL, NULL, e) < 0)
        return -1;
    json_decref(network);
    if (opts->user && (!*opts->user || strchr(opts->user, ':')))
        return err_set(e, ERR_INVALID, "\"%.80s\" is not a user's name", opts->user);
    return 0;
}

bool client_slides(const struct client *c)
{
    return c->dialect->slides && (!c->identify || identify_is_done(c->identify));
}

bool client_is_there(const struct client *c)
{
    return !c->starter || daemon_start_is_done(c->starter);
}

void client_cancel(struct client_op *op)
{
    op->cancel(op);
}

// ---- for the rest of the folder
struct http_client *client__http(struct client *c)
{
    if (!c->http) // made late: a program that never asks anything starts 10 ms sooner without curl
        c->http = http_client_new(c->loop);
    return c->http;
}

void client__wait(struct client *c, struct daemon_waiter *w)
{
    if (c->starter)
        daemon_start_wait(c->starter, w);
    else if (c->identify)
        identify_wait(c->identify, w);
    else
        w->on_ready(NULL, w->ctx);
}

void client__forget(struct client *c, struct daemon_waiter *w)
{
    if (c->starter)
        daemon_start_forget(c->starter, w);
    else if (c->identify)
        identify_forget(c->identify, w);
}

void client__explain(const struct client *c, struct err *e)
{
    bool is_known = !c->identify || identify_is_done(c->identify);
    if (e->code == ERR_NOT_FOUND) // a host's name, which is not what "not found" means here
        e->code = ERR_UNAVAILABLE;
    if (e->sys == ECONNREFUSED) // which says that a port of a sandbox is closed: see client_stream
        e->sys = 0;
    size_t len = strlen(e->msg);
    if (e->sys == EKEYREJECTED)
        snprintf(e->msg + len, sizeof e->msg - len,
                 ". If its certificate is of an authority of your own, name that in "
                 "--backend-ca or SSL_CERT_FILE");
    if (e->sys == EPROTO && strstr(e->msg, "wrong version number")) { // what OpenSSL says of it
        *e = ERR_INIT;
        err_set(e, ERR_INVALID, "the server speaks http, not https: give its URL with http://");
    }
    err_wrap(e, "%s", is_known ? c->dialect->name : c->api_url);
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
