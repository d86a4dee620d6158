// SPDX-License-Identifier: Apache-2.0
// Exposed ports of a sandbox.
//
// client_expose: 1. find out the dialect; 2. for cubbyd, POST /sandboxes/{id}/ports, and done; 3.
// for others, run a command in the sandbox that waits for the port, which also makes the sandbox's
// domain known; 4. make the URL of the port.
#include "sandbox-backend/client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"

#define WAIT_GRACE_MS 15000 // beyond the wait, for its last attempt

// Tries port $1 for $2 seconds, five times a second.
static const char WAIT_SCRIPT[] =
    "n=$(($2 * 5)); while :; do for a in 127.0.0.1 ::1; do (exec 3<>/dev/tcp/$a/$1) 2>/dev/null && "
    "exit 0; done; [ $n -gt 0 ] || exit 9; n=$((n - 1)); sleep 0.2; done";

struct exposing {
    struct client_op base;
    struct call *call;      // borrowed; step 1
    struct client_op *step; // borrowed; step 2 or 3
    struct expose_opts opts;
    char *id; // owned
    client_json_cb cb;
    void *ctx;
};

static void on_known(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void start_request(struct exposing *op);
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
    done.cb(info, e, done.ctx);
}

static void cancel(struct client_op *base)
{
    struct exposing *op = container_of(base, struct exposing, base);
    if (op->step)
        client_cancel(op->step);
    else if (op->call)
        call_cancel(op->call);
}

// ---- 1. the dialect
struct client_op *client_expose(struct client *c, const char *id, const struct expose_opts *opts,
                                client_json_cb cb, void *ctx)
{
    static const struct call_events EVENTS = {.on_end = on_known};
    const struct call_opts nothing = {.method = NULL};
    struct exposing *op = xcalloc(1, sizeof *op);
    op->id = xstrdup(id);
    op->opts = *opts;
    op->cb = cb;
    op->ctx = ctx;
    op_begin(&op->base, c, cancel);
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
        err_set(&refused, ERR_UNIMPLEMENTED,
                "%s gives each port a URL of its own. It has no host ports, no access token for "
                "one port and no raw TCP, so leave these options out",
                d->name);
    if (e || err_is(&refused))
        complete(op, NULL, e ? e : &refused);
    else if (d->to_port)
        start_wait(op);
    else
        start_request(op);
}

// ---- 2. cubbyd
static bool is_port(const json_t *one)
{
    return json_is_string(json_object_get(one, "url")) &&
           json_is_integer(json_object_get(one, "port"));
}

static bool are_ports(const json_t *list)
{
    return json_all(list, is_port);
}

static void on_exposed(const json_t *info, const struct err *e, void *ctx)
{
    struct exposing *op = ctx;
    op->step = NULL;
    complete(op, info, e);
}

static struct client_op *ask_ports(struct client *c, const char *id, struct call_opts *opts,
                                   const char *query, const struct ask *want)
{
    char *suffix auto_free = str_printf("/ports%s", query);
    char *target auto_free = client__about(id, suffix);
    opts->target = target;
    opts->needs = FEATURE_PORTS;
    return ask_start(c, opts, want);
}

static void start_request(struct exposing *op)
{
    const struct expose_opts *o = &op->opts;
    json_t *want = json_pack("{s:i, s:i, s:s, s:I}", "port", o->port, "hostPort", o->host_port,
                             "protocol", o->tcp ? "tcp" : "http", "wait", (json_int_t)o->wait_s);
    if (o->token) // without it, cubbyd decides whether one is needed
        json_object_set_new(want, "token", json_true());
    char *text auto_free = json_to_string(want);
    json_decref(want);
    struct call_opts opts = {.method = "POST",
                             .body = text,
                             .body_len = strlen(text),
                             .timeout_ms = ASK_MS + (uint64_t)o->wait_s * 1000};
    op->step = ask_ports(op->base.client, op->id, &opts, "",
                         &(struct ask){.json_cb = on_exposed,
                                       .ctx = op,
                                       .is_sound = is_port,
                                       .unsound = "the port is missing"});
}

// ---- 3. wait until something listens
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
    op->step = client_command(op->base.client, op->id, &opts, &EVENTS, op);
}

static void on_waited(const struct command_result *r, const struct err *e, void *ctx)
{
    struct exposing *op = ctx;
    struct err closed = ERR_INIT;
    op->step = NULL;
    bool listens = !e && r->end == COMMAND_EXITED && r->exit_code == 0;
    if (!e && !listens && op->opts.wait_s > 0)
        err_set(
            &closed, ERR_TIMEOUT,
            "nothing listens on port %d of the sandbox after %lld s; start a server there first",
            op->opts.port, (long long)op->opts.wait_s);
    if (e || err_is(&closed))
        complete(op, NULL, e ? e : &closed);
    else
        tell_name(op);
}

// ---- 4. its URL
static void tell_name(struct exposing *op)
{
    struct client *c = op->base.client;
    struct err unknown = ERR_INIT;
    const struct access *a = access_cache_get(&c->accesses, op->id);
    char *url auto_free = a ? c->dialect->to_port(c, a, op->opts.port) : NULL;
    if (!url) {
        err_set(&unknown, ERR_UNAVAILABLE,
                "the backend gave no address for the sandbox, so the port has no URL");
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
    struct call_opts opts = {.method = "GET", .timeout_ms = ASK_MS};
    return ask_ports(c, id, &opts, "",
                     &(struct ask){.json_cb = cb,
                                   .ctx = ctx,
                                   .is_sound = are_ports,
                                   .unsound = "a list of ports was expected"});
}

struct client_op *client_unexpose(struct client *c, const char *id, int port, client_done_cb cb,
                                  void *ctx)
{
    char query[32] = "";
    struct call_opts opts = {.method = "DELETE", .timeout_ms = ASK_MS};
    if (port)
        snprintf(query, sizeof query, "?port=%d", port);
    return ask_ports(c, id, &opts, query, &(struct ask){.done_cb = cb, .ctx = ctx});
}
