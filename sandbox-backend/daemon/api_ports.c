// SPDX-License-Identifier: Apache-2.0
// /sandboxes/{id}/ports: the ports of a sandbox that are exposed on the host (ports.h).
//
// POST: 1. what is asked for; 2. with `wait`, until the guest's port listens; 3. the listener, the
// record, the answer. Nothing is exposed before the guest's port listens, so there is nothing to
// undo when it does not.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/ports.h"
#include "sandbox-backend/daemon/proxy_stream.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

struct exposure {
    struct http_request *req;   // borrowed; NULL once the client has gone
    struct sandbox *sb;         // borrowed; its dials end before it is gone
    struct upstream_dial *dial; // while it waits
    struct port_want want;
    char *token; // owned, or NULL
    int64_t wait_s;
};

static void expose(struct store *store, struct http_request *req, struct sandbox *sb,
                   const json_t *body);
static void wait_for(struct exposure *x);
static void on_dialed(uv_stream_t *stream, const struct err *e, void *ctx);
static void open_it(struct exposure *x);

static void exposure_free(struct exposure *x)
{
    free(x->token);
    free(x);
}

// ---- 1. what is asked for
static int read_protocol(const json_t *body, enum port_protocol *out, struct err *e)
{
    const char *word;
    if (json_get_string(body, "protocol", &word, "http", e) < 0)
        return -1;
    *out = str_eq(word, "tcp") ? PORT_TCP : PORT_HTTP;
    if (str_eq(word, "tcp") || str_eq(word, "http"))
        return 0;
    return err_set(e, ERR_INVALID, "protocol must be http or tcp, not \"%.40s\"", word);
}

static int read_want(struct exposure *x, const json_t *body, struct err *e)
{
    int64_t number = 0, host_port = 0;
    bool token = false;
    if (json_get_int(body, "port", 1, UINT16_MAX, &number, 0, e) < 0 ||
        json_get_int(body, "hostPort", 0, UINT16_MAX, &host_port, 0, e) < 0 ||
        json_get_int(body, "wait", 0, PORT_WAIT_MAX_S, &x->wait_s, 0, e) < 0 ||
        read_protocol(body, &x->want.protocol, e) < 0 ||
        json_get_bool(body, "token", &token,
                      ports_need_token(x->sb) && x->want.protocol == PORT_HTTP, e) < 0)
        return -1;
    if (!number)
        return err_set(e, ERR_INVALID,
                       "port is missing: the one on which a server in the "
                       "sandbox listens");
    if (host_port && host_port < PORT_HOST_MIN)
        return err_set(e, ERR_INVALID, "hostPort must be %d to 65535, or 0 for any", PORT_HOST_MIN);
    x->want.number = (int)number;
    x->want.host_port = (int)host_port;
    x->want.token = x->token = token ? ports_new_token() : NULL;
    return ports_check(x->sb, &x->want, e);
}

// One that is exposed already, and as it is asked for now, is as good as a new one.
static bool refuse_other(struct exposure *x)
{
    const struct port *there = ports_find(x->sb, x->want.number);
    if (!there || ports_is_as(there, &x->want))
        return false;
    reply_error(x->req, 409, "port_exposed",
                "Port %d of sandbox \"%s\" is exposed already, in another way; close it first "
                "(cubby expose --close), or use it as it is",
                x->want.number, x->sb->id);
    return true;
}

static bool refuse_wait(const struct exposure *x)
{
    if (!x->wait_s)
        return false;
    if (x->sb->stream_count < PROXY_STREAMS_MAX)
        return !api_is_running(x->req, x->sb);
    reply_error(x->req, 429, "limit_reached",
                "The sandbox has %d requests open at once, which is "
                "the limit",
                PROXY_STREAMS_MAX);
    return true;
}

static void expose(struct store *store, struct http_request *req, struct sandbox *sb,
                   const json_t *body)
{
    (void)store;
    struct err e = ERR_INIT;
    struct exposure *x = xcalloc(1, sizeof *x);
    x->req = req;
    x->sb = sb;
    bool fine = read_want(x, body, &e) == 0;
    if (!fine)
        reply_err(req, NULL, &e);
    if (!fine || refuse_other(x) || refuse_wait(x))
        exposure_free(x);
    else if (x->wait_s)
        wait_for(x);
    else
        open_it(x);
}

void api_expose(struct store *store, struct http_request *req, const char *id)
{
    api_change(store, req, id, expose);
}

// ---- 2. until something listens
static void on_client_gone(void *ctx)
{
    struct exposure *x = ctx;
    x->req = NULL;
    x->sb->stream_count--;
    upstream_dial_cancel(x->dial); // its callback is not called any more
    exposure_free(x);
}

// It counts as a stream: a sandbox that is waited for is in use.
static void wait_for(struct exposure *x)
{
    const struct upstream_patience patience = {.closed_ms = x->wait_s * 1000};
    struct sandbox *sb = x->sb;
    sb->stream_count++;
    http_request_on_close(x->req, on_client_gone, x);
    x->dial = upstream_dial_stream(&sb->upstream, machine_vmnet(sb->machine), x->want.number,
                                   UPSTREAM_DIAL_MS, patience, on_dialed, x);
}

static void on_stream_closed(uv_handle_t *handle)
{
    free(handle);
}

static void reply_waited(const struct exposure *x, const struct err *e)
{
    if (e->code == ERR_NOT_FOUND)
        reply_error(
            x->req, 504, "port_closed",
            "Nothing listens on port %d of sandbox \"%s\" yet, after %lld s; start a server "
            "there, then ask again",
            x->want.number, x->sb->id, (long long)x->wait_s);
    else
        reply_error(x->req, 504, "port_closed",
                    "Port %d of sandbox \"%s\" could not be waited for: %s", x->want.number,
                    x->sb->id, e->msg);
}

static void on_dialed(uv_stream_t *stream, const struct err *e, void *ctx)
{
    struct exposure *x = ctx;
    if (stream)
        uv_close((uv_handle_t *)stream, on_stream_closed);
    http_request_on_close(x->req, NULL, NULL);
    x->sb->stream_count--;
    sandbox_touch(x->sb);
    if (!sandbox_is_known(x->sb)) {
        api_not_found(x->sb->store, x->req, x->sb->id);
        exposure_free(x);
    } else if (!stream) {
        reply_waited(x, e);
        exposure_free(x);
    } else {
        open_it(x);
    }
}

// ---- 3. the listener
static void reply_port(const struct exposure *x, int status, const struct port *port)
{
    reply_json(x->req, status, ports_view(port));
}

// Another may have exposed it while this one waited, and others may have filled its room.
static void open_it(struct exposure *x)
{
    struct err e = ERR_INIT;
    struct port *port = ports_find(x->sb, x->want.number);
    if (port) {
        if (!refuse_other(x))
            reply_port(x, 200, port);
    } else if (ports_check(x->sb, &x->want, &e) < 0) {
        reply_err(x->req, NULL, &e);
    } else if (!(port = ports_open(x->sb, &x->want, &e))) {
        reply_err(x->req, e.code == ERR_EXISTS ? "host_port_taken" : NULL, &e);
    } else {
        record_write_or_log(x->sb);
        journal_add(&x->sb->journal, JOURNAL_INFO, "a port was exposed");
        reply_port(x, 201, port);
    }
    exposure_free(x);
}

// ---- the others
void api_ports(struct store *store, struct http_request *req, const char *id)
{
    const struct sandbox *sb = api_find(store, req, id);
    if (sb)
        reply_json(req, 200, ports_view_all(sb));
}

// Without a port all are closed, so what was meant to be one must not be overlooked. False after a
// 400; *word is NULL for all.
static bool read_which(struct http_request *req, const char **word, int64_t *number)
{
    static const char *const KNOWN[] = {"port"};
    const char *other = http_request_query_other(req, KNOWN, ARRAY_LEN(KNOWN));
    bool bad;
    *word = http_request_query(req, "port", &bad);
    if (other)
        reply_error(
            req, 400, NULL,
            "\"%.40s\" is no parameter of this: port=N closes one port, and no parameter all "
            "of them",
            other);
    else if (bad || (*word && !str_to_int(*word, 1, UINT16_MAX, number)))
        reply_error(req, 400, NULL, "port must be from 1 to 65535");
    else
        return true;
    return false;
}

void api_unexpose(struct store *store, struct http_request *req, const char *id)
{
    struct sandbox *sb = api_find(store, req, id);
    if (!sb)
        return;
    const char *word = NULL;
    int64_t number = 0;
    if (!read_which(req, &word, &number))
        return;
    struct port *port = word ? ports_find(sb, (int)number) : NULL;
    if (word && !port) {
        reply_error(req, 404, "port_not_exposed", "Port %s of sandbox \"%s\" is not exposed", word,
                    sb->id);
        return;
    }
    if (port)
        ports_close(port);
    else
        ports_close_all(sb);
    record_write_or_log(sb);
    reply_empty(req);
}
