// SPDX-License-Identifier: Apache-2.0
// Ports of a sandbox as URLs.
//
// client_expose: 1. which server it is; 2. of cubbyd, POST /sandboxes/{id}/ports, and that is all;
// 3. of others, a command in the sandbox that waits for the port (by which the sandbox's domain is
// learnt, too), 4. the name that the port has there.
#include "sandbox-backend/client/ports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/state.h"

#define ANSWER_MS     60000
#define WAIT_GRACE_MS 15000 // beyond the time that is waited, for what has begun to be tried then

// Tries $1 for $2 seconds, five times each.
static const char WAIT_SCRIPT[] =
    "n=$(($2 * 5)); while :; do for a in 127.0.0.1 ::1; do (exec 3<>/dev/tcp/$a/$1) 2>/dev/null && "
    "exit 0; done; [ $n -gt 0 ] || exit 9; n=$((n - 1)); sleep 0.2; done";

struct exposing {
    struct client_op base;
    struct call *call;         // borrowed; 1., 2. and what is not client_expose
    struct client_op *command; // borrowed; 3.
    struct expose_opts opts;
    char *id;               // owned
    client_json_cb json_cb; // either this
    client_done_cb done_cb; // or this
    void *ctx;
};

static void on_known(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_answer(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void start_wait(struct exposing *op);
static void on_waited(const struct command_result *r, const struct err *e, void *ctx);
static void tell_name(struct exposing *op);

// ---- life
static void complete(struct exposing *op, const json_t *info, const struct err *e)
{
    const struct exposing done = *op;
    op_end(&op->base);
    free(op->id);
    free(op);
    if (done.json_cb)
        done.json_cb(info, e, done.ctx);
    else
        done.done_cb(e, done.ctx);
}

static void cancel(struct client_op *base)
{
    struct exposing *op = container_of(base, struct exposing, base);
    if (op->command)
        client_cancel(op->command);
    else if (op->call)
        call_cancel(op->call);
}

static struct exposing *begin(struct client *c, const char *id, void *ctx)
{
    struct exposing *op = xcalloc(1, sizeof *op);
    op->id = xstrdup(id);
    op->ctx = ctx;
    op_begin(&op->base, c, cancel);
    return op;
}

static void ask(struct exposing *op, const char *method, const char *query, const char *body,
                uint64_t timeout_ms)
{
    static const struct call_events EVENTS = {.on_end = on_answer};
    struct buf target auto_buf = BUF_INIT;
    buf_adds(&target, "/sandboxes/");
    percent_encode(&target, op->id, false);
    buf_printf(&target, "/ports%s", query);
    const struct call_opts opts = {.method = method,
                                   .target = buf_str(&target),
                                   .body = body,
                                   .body_len = body ? strlen(body) : 0,
                                   .timeout_ms = timeout_ms,
                                   .needs = FEATURE_PORTS};
    op->call = call_start(op->base.client, &opts, &EVENTS, op);
}

static bool is_port(const json_t *one)
{
    return json_is_string(json_object_get(one, "url")) &&
           json_is_integer(json_object_get(one, "port"));
}

static bool is_sound(const json_t *info)
{
    size_t i;
    json_t *one;
    bool sound = json_is_array(info) || is_port(info);
    json_array_foreach(info, i, one)
    {
        sound = sound && is_port(one);
    }
    return sound;
}

static void on_answer(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    struct exposing *op = ctx;
    struct err wrong = ERR_INIT;
    op->call = NULL;
    json_t *info = e || !op->json_cb ? NULL : json_parse(body, len, &wrong);
    if (info && !is_sound(info))
        err_set(&wrong, ERR_INTERNAL, "it names no port");
    err_wrap(&wrong, "the answer of %s", op->base.client->dialect->name);
    complete(op, err_is(&wrong) ? NULL : info, err_is(&wrong) ? &wrong : e);
    json_decref(info);
}

// ---- 1. which server it is
struct client_op *client_expose(struct client *c, const char *id, const struct expose_opts *opts,
                                client_json_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_known};
    const struct call_opts nothing = {.method = NULL};
    struct exposing *op = begin(c, id, ctx);
    op->opts = *opts;
    op->json_cb = cb;
    op->call = call_start(c, &nothing, &EVENTS, op);
    return &op->base;
}

static void on_known(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status, (void)body, (void)len;
    struct exposing *op = ctx;
    struct err refused = ERR_INIT;
    const struct dialect *d = op->base.client->dialect;
    op->call = NULL;
    if (!e && d->to_port && (op->opts.host_port || op->opts.token || op->opts.tcp))
        err_set(
            &refused, ERR_UNIMPLEMENTED,
            "%s gives each port a name of its own: it has no ports of a host, access tokens for "
            "one port or raw TCP",
            d->name);
    if (e || err_is(&refused)) {
        complete(op, NULL, e ? e : &refused);
        return;
    }
    if (d->to_port) {
        start_wait(op);
        return;
    }
    // ---- 2. cubbyd
    json_t *want =
        json_pack("{s:i, s:i, s:s, s:I}", "port", op->opts.port, "hostPort", op->opts.host_port,
                  "protocol", op->opts.tcp ? "tcp" : "http", "wait", (json_int_t)op->opts.wait_s);
    if (op->opts.token) // else it has one where it must have one
        json_object_set_new(want, "token", json_true());
    char *text auto_free = json_to_string(want);
    json_decref(want);
    ask(op, "POST", "", text, ANSWER_MS + (uint64_t)op->opts.wait_s * 1000);
}

// ---- 3. until it listens
static void on_output(const char *data, size_t len, void *ctx)
{
    (void)data, (void)len, (void)ctx;
}

static void start_wait(struct exposing *op)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_output, .on_stderr = on_output, .on_end = on_waited};
    char port[16], seconds[24];
    snprintf(port, sizeof port, "%d", op->opts.port);
    snprintf(seconds, sizeof seconds, "%lld", (long long)op->opts.wait_s);
    const char *const args[] = {"-c", WAIT_SCRIPT, "cubby-wait", port, seconds, NULL};
    const struct command_opts opts = {.cmd = "/bin/bash",
                                      .args = args,
                                      .cwd = "/",
                                      .timeout_ms = op->opts.wait_s * 1000 + WAIT_GRACE_MS};
    op->command = client_command(op->base.client, op->id, &opts, &EVENTS, op);
}

static void on_waited(const struct command_result *r, const struct err *e, void *ctx)
{
    struct exposing *op = ctx;
    struct err closed = ERR_INIT;
    op->command = NULL;
    bool listens = !e && r->end == COMMAND_EXITED && r->exit_code == 0;
    if (!e && !listens && op->opts.wait_s > 0)
        err_set(&closed, ERR_TIMEOUT, "nothing listens on port %d of the sandbox yet, after %lld s",
                op->opts.port, (long long)op->opts.wait_s);
    if (e || err_is(&closed))
        complete(op, NULL, e ? e : &closed);
    else
        tell_name(op);
}

// ---- 4. its name
static void tell_name(struct exposing *op)
{
    struct client *c = op->base.client;
    struct err unknown = ERR_INIT;
    const struct access *a = access_cache_get(&c->accesses, op->id);
    char *url auto_free = a ? c->dialect->to_port(c, a, op->opts.port) : NULL;
    if (!url) {
        err_set(&unknown, ERR_UNAVAILABLE, "the name of the sandbox's ports is not known");
        complete(op, NULL, &unknown);
        return;
    }
    const char *token = a->traffic_token[0] ? a->traffic_token : NULL;
    json_t *info = json_pack("{s:i, s:s, s:s, s:s, s:s?}", "port", op->opts.port, "protocol",
                             "http", "url", url, "browserUrl", url, "token", token);
    complete(op, info, NULL);
    json_decref(info);
}

// ---- the others
struct client_op *client_ports(struct client *c, const char *id, client_json_cb cb, void *ctx)
{
    struct exposing *op = begin(c, id, ctx);
    op->json_cb = cb;
    ask(op, "GET", "", NULL, ANSWER_MS);
    return &op->base;
}

struct client_op *client_unexpose(struct client *c, const char *id, int port, client_done_cb cb,
                                  void *ctx)
{
    char query[32] = "";
    struct exposing *op = begin(c, id, ctx);
    op->done_cb = cb;
    if (port)
        snprintf(query, sizeof query, "?port=%d", port);
    ask(op, "DELETE", query, NULL, ANSWER_MS);
    return &op->base;
}
