// SPDX-License-Identifier: Apache-2.0
// /sandboxes/{id}/ports: the exposed ports of a sandbox (ports.h).
//
// POST takes three steps: read what is asked for; with "wait", wait until the guest's port listens;
// open the listener, write the record and answer. Nothing is exposed before the guest's port
// listens, so nothing has to be undone when it does not.
#include <stdlib.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/proxy/ports.h"
#include "sandbox-backend/daemon/proxy/proxy_stream.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

struct exposure {
    struct http_request *req;   // borrowed; NULL once the client has gone
    struct sandbox *sb;         // borrowed; the dial ends before it is gone
    struct upstream_dial *dial; // while it waits for the port
    struct port_want want;
    char *token; // owned, or NULL
    int64_t wait_s;
};

static void wait_for(struct exposure *x);
static void on_dialed(uv_stream_t *stream, const struct err *e, void *ctx);
static void open_it(struct exposure *x);

static void exposure_free(struct exposure *x)
{
    free(x->token);
    free(x);
}

// ---- 1. the request
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
                       "port is required: the port on which a server in the sandbox listens");
    if (host_port && host_port < PORT_HOST_MIN)
        return err_set(e, ERR_INVALID, "hostPort must be %d to 65535, or 0 for a free port",
                       PORT_HOST_MIN);
    x->want.number = (int)number;
    x->want.host_port = (int)host_port;
    x->want.token = x->token = token ? ports_new_token() : NULL;
    return ports_check(x->sb, &x->want, e);
}

// A port that is exposed already, in the way that is asked for, is as good as a new one.
static bool refuse_other(const struct exposure *x)
{
    const struct port *there = ports_find(x->sb, x->want.number);
    if (!there || ports_is_as(there, &x->want))
        return false;
    reply_error(x->req, 409, "port_exposed",
                "Port %d of sandbox \"%s\" is already exposed with other settings; close it first "
                "(cubby expose --close), or use the present URL",
                x->want.number, x->sb->id);
    return true;
}

static int check_wait(struct api_call *c, struct err *e)
{
    if (c->sb->stream_count < PROXY_STREAMS_MAX)
        return api_need_running(c, e);
    return err_set(e, ERR_LIMIT, "The sandbox has %d requests open at once, which is the limit",
                   PROXY_STREAMS_MAX);
}

int api_expose(struct api_call *c, struct err *e)
{
    struct exposure *x = xcalloc(1, sizeof *x);
    x->req = c->req;
    x->sb = c->sb;
    int rc = read_want(x, c->body, e);
    bool refused = rc == 0 && refuse_other(x);
    if (rc == 0 && !refused && x->wait_s)
        rc = check_wait(c, e);
    if (rc < 0 || refused)
        exposure_free(x);
    else if (x->wait_s)
        wait_for(x);
    else
        open_it(x);
    return rc;
}

// ---- 2. the wait
static void on_client_gone(void *ctx)
{
    struct exposure *x = ctx;
    x->req = NULL;
    x->sb->stream_count--;
    upstream_dial_cancel(x->dial);
    exposure_free(x);
}

// The wait counts as a stream, because the sandbox is in use meanwhile.
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
        reply_error(x->req, 504, "port_closed",
                    "Nothing listens on port %d of sandbox \"%s\" after %lld s; start a server "
                    "there, then expose the port again",
                    x->want.number, x->sb->id, (long long)x->wait_s);
    else
        reply_error(x->req, 504, "port_closed", "The wait for port %d of sandbox \"%s\" failed: %s",
                    x->want.number, x->sb->id, e->msg);
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
        api_find(x->sb->store, x->req, x->sb->id); // which answers that it has ended
        exposure_free(x);
    } else if (!stream) {
        reply_waited(x, e);
        exposure_free(x);
    } else {
        open_it(x);
    }
}

// ---- 3. the listener
// During the wait another request may have exposed the port, or used up the limits.
static void open_it(struct exposure *x)
{
    struct err e = ERR_INIT;
    struct port *port = ports_find(x->sb, x->want.number);
    if (port) {
        if (!refuse_other(x))
            reply_json(x->req, 200, ports_view(port));
    } else if (ports_check(x->sb, &x->want, &e) < 0) {
        reply_err(x->req, NULL, &e);
    } else if (!(port = ports_open(x->sb, &x->want, &e))) {
        reply_err(x->req, e.code == ERR_EXISTS ? "host_port_taken" : NULL, &e);
    } else {
        record_write_or_log(x->sb);
        journal_add(&x->sb->journal, JOURNAL_INFO, "a port was exposed");
        reply_json(x->req, 201, ports_view(port));
    }
    exposure_free(x);
}

// ---- list and close
int api_ports(struct api_call *c, struct err *e)
{
    (void)e;
    reply_json(c->req, 200, ports_view_all(c->sb));
    return 0;
}

// Without "port" all ports are closed, so a misspelt parameter must be refused. *word is NULL for
// all ports.
static int read_which(struct http_request *req, const char **word, int64_t *number, struct err *e)
{
    static const char *const KNOWN[] = {"port"};
    const char *other = http_request_query_other(req, KNOWN, ARRAY_LEN(KNOWN));
    bool bad;
    *word = http_request_query(req, "port", &bad);
    if (other)
        return err_set(
            e, ERR_INVALID,
            "unknown parameter \"%.40s\": port=N closes one port, and no parameter closes all of "
            "them",
            other);
    if (bad || (*word && !str_to_int(*word, 1, UINT16_MAX, number)))
        return err_set(e, ERR_INVALID, "port must be from 1 to 65535");
    return 0;
}

int api_unexpose(struct api_call *c, struct err *e)
{
    const char *word = NULL;
    int64_t number = 0;
    if (read_which(c->req, &word, &number, e) < 0 || api_check_stays(c, e) < 0)
        return -1;
    struct port *port = word ? ports_find(c->sb, (int)number) : NULL;
    if (word && !port) {
        c->error_code = "port_not_exposed";
        return err_set(e, ERR_NOT_FOUND, "Port %s of sandbox \"%s\" is not exposed", word,
                       c->sb->id);
    }
    if (port)
        ports_close(port);
    else
        ports_close_all(c->sb);
    record_write_or_log(c->sb);
    reply_empty(c->req);
    return 0;
}
