// SPDX-License-Identifier: Apache-2.0
// Step 3 of a call: read the answer. A success goes to the operation as it comes. Any other end
// becomes an error (answer.c). Where that error may stand for something else, because the proxy in
// front of a sandbox does not tell, the control plane is asked whether the sandbox is there.
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/answer.h"
#include "sandbox-backend/client/call_internal.h"

static void ask_in_doubt(struct call *call);
static void on_doubt_answered(const struct err *e, void *ctx);

// ---- a success, as it comes
void call__on_head(int64_t length, void *ctx)
{
    struct call *call = ctx;
    if (call->sandbox && call->port != ENVD_PORT)
        access_cache_heard(&call->client->accesses, call->sandbox, call->port);
    if (call->events.on_head)
        call->events.on_head(length, call->ctx);
}

void call__on_data(const char *data, size_t len, void *ctx)
{
    struct call *call = ctx;
    call->events.on_data(data, len, call->ctx);
}

// ---- what an end means
// An envd that is too old for a procedure answers it like any unknown path.
static void explain_envd(struct call *call)
{
    const struct access *a = call__access(call);
    bool is_unknown = call->status == 404 && !retry_is_json(&call->roundtrip.body);
    if (call->port != ENVD_PORT || str_starts(call->target, "/files") ||
        (!is_unknown && call->err.code != ERR_UNIMPLEMENTED))
        return;
    call->err = ERR_INIT;
    err_set(&call->err, ERR_UNIMPLEMENTED, "envd %s in the sandbox does not offer %s",
            a && a->envd_version[0] ? a->envd_version : "unknown", call->target + 1);
}

// CubeProxy since 0.5 answers {"error": "..."} for a sandbox that it cannot find (404), that has
// ended (410), or that it cannot reach (503).
static bool is_of_proxy(const struct call *call)
{
    const struct buf *body = &call->roundtrip.body;
    if (call->client->dialect->tells_gone ||
        (call->status != 404 && call->status != 410 && call->status != 503))
        return false;
    json_t *answer = json_parse(buf_str(body), body->len, NULL);
    bool is = json_object_size(answer) == 1 && json_is_string(json_object_get(answer, "error"));
    json_decref(answer);
    return is;
}

// A port that is closed now but answered before had a server, whose state is lost.
static void explain_closed(struct call *call)
{
    const struct access *a = call__access(call);
    if (call->err.code != ERR_REFUSED || !a || call->port == ENVD_PORT ||
        a->answered_port != call->port)
        return;
    call->err = ERR_INIT;
    err_set(&call->err, ERR_UNAVAILABLE,
            "the server on port %d of the sandbox ended, and its data in memory is lost; if the "
            "sandbox restarts it, try again in a moment",
            call->port);
}

// CubeProxy answers for a closed port with nginx's own page. envd's port is closed only while a new
// sandbox starts.
static void explain_page(struct call *call)
{
    if (!call->client->dialect->tells_gone && call->status == 502 && call->port != ENVD_PORT &&
        !retry_is_json(&call->roundtrip.body))
        call->err.code = ERR_REFUSED;
}

// A route that does not exist, as opposed to a sandbox that does not: E2B's router answers in plain
// text, and its check of requests in JSON.
static void explain_route(struct call *call)
{
    const struct buf *body = &call->roundtrip.body;
    bool is_unknown = call->status == 404 &&
                      (!retry_is_json(body) || strstr(buf_str(body), "no matching operation"));
    if (!call->needs || (!is_unknown && call->status != 405 && call->status != 501))
        return;
    call->err = ERR_INIT;
    dialect_too_old(call->client->dialect, call->needs, call->status, &call->err);
}

// Return whether the call has succeeded so far, or has its error already.
static bool is_judged(const struct call *call, const struct err *e)
{
    return err_is(&call->err) || (!e && roundtrip_is_success(&call->roundtrip));
}

// A refusal counts more than the connection that broke after it, as when a server refuses an upload
// half-way.
void call__judge_api(struct call *call, const struct err *e)
{
    const struct buf *body = &call->roundtrip.body;
    if (is_judged(call, e))
        return;
    if (e && call->status < 300) {
        call->err = *e;
        return;
    }
    answer_api_error(&call->err, call->status, buf_str(body), body->len);
    explain_route(call);
}

static void judge_guest(struct call *call, const struct err *e)
{
    struct access_cache *accesses = &call->client->accesses;
    const struct roundtrip *x = &call->roundtrip;
    bool is_broken = e && call->status < 300;
    if (is_judged(call, e))
        return;
    if (is_broken)
        call->err = *e;
    else
        answer_envd_error(&call->err, call__access(call) != NULL, call->status, buf_str(&x->body),
                          x->body.len);
    if (is_broken && call->request.is_direct && x->was_refused)
        call->err.code = ERR_REFUSED; // by the sandbox itself: no backend is in between
    if (!is_broken) {
        explain_envd(call);
        explain_page(call);
    }
    if (!is_broken && is_of_proxy(call))
        call->err.code = ERR_UNAVAILABLE;
    explain_closed(call);
    // The sandbox may have moved, or its token changed: the next call looks it up.
    if (is_broken ? call->client->cube_master != NULL : call->status == 401)
        access_cache_drop(accesses, call->sandbox);
}

// Return whether the error is one of the way to the sandbox, without a reason from envd.
static bool is_vague(const struct call *call)
{
    const struct buf *body = &call->roundtrip.body;
    if (!call->sandbox || !err_is(&call->err))
        return false;
    if (answer_may_mean_paused(call->status, buf_str(body), body->len))
        return true;
    if (call->client->dialect->tells_gone)
        return false;
    return call->status == 0 || is_of_proxy(call) || (call->status >= 500 && !retry_is_json(body));
}

void call__read(struct call *call, const struct err *e)
{
    bool was_canceled = err_is(&call->err);
    call->status = call->roundtrip.status;
    if (call->sandbox)
        judge_guest(call, e);
    else
        call__judge_api(call, e);
    if (!was_canceled && is_vague(call))
        ask_in_doubt(call);
    else
        call__end(call);
}

// ---- in doubt: is the sandbox there? Three answers count: it is not, it is paused, or it runs
// although the proxy cannot find it. After any other answer the first error stays.
static void ask_in_doubt(struct call *call)
{
    call__set_state(call, CALL_DOUBTING);
    call->first = call->err;
    call->err = ERR_INIT;
    dialect_to_lookup(call->client, call->sandbox, &call->lookup);
    call__look_up(call, on_doubt_answered);
}

// Sets call->err to the first error, in the light of what the control plane says of the sandbox.
static void judge_there(struct call *call)
{
    const struct buf *body = &call->roundtrip.body;
    json_t *sandbox = json_parse(buf_str(body), body->len, NULL);
    const char *state = json_string_value(json_object_get(sandbox, "state"));
    if (str_eq(state, "paused"))
        answer_paused(&call->err);
    else if (call->first.code == ERR_GONE && str_eq(state, "running"))
        err_set(&call->err, ERR_UNAVAILABLE,
                "%s lists the sandbox as running, but its proxy says: %s",
                call->client->dialect->name, call->first.msg);
    else
        call->err = call->first;
    json_decref(sandbox);
}

static void on_doubt_answered(const struct err *e, void *ctx)
{
    struct call *call = ctx;
    int first_status = call->status;
    bool is_gone = !e && call->roundtrip.status == 404;
    call->status = call->roundtrip.status;
    call__judge_api(call, e);
    if (is_gone)
        call->err.code = ERR_GONE;
    else if (!err_is(&call->err))
        judge_there(call);
    else if (call->err.code != ERR_CANCELED)
        call->err = call->first;
    if (is_gone)
        access_cache_drop(&call->client->accesses, call->sandbox);
    call->status = is_gone ? 502 : first_status;
    call__end(call);
}
