// SPDX-License-Identifier: Apache-2.0
// Pass a request on to a port of a sandbox, and the answer back.
#include "sandbox-backend/daemon/proxy/proxy_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/daemon/calls/call_tap.h"
#include "sandbox-backend/daemon/http/api_keys.h"
#include "sandbox-backend/daemon/proxy/ports.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "sandbox-backend/daemon/proxy/proxy_error.h"
#include "sandbox-backend/daemon/proxy/proxy_head.h"
#include "sandbox-backend/daemon/proxy/route.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"

enum stream_state {
    STREAM_WAKING,
    STREAM_DIALING,
    STREAM_WAITING,
    STREAM_ANSWERING,
    STREAM_TUNNEL,
    STREAM_DONE,
};

struct proxy_stream {
    LIST_ENTRY(proxy_stream) link; // in sandbox.streams, until DONE
    struct sandbox *sb;            // borrowed; NULL once DONE
    struct http_request *req;      // borrowed; NULL once DONE
    struct upstream_dial *dial;    // while DIALING
    struct upstream_conn *conn;    // owned until the call on it has ended
    char *target;                  // owned
    int port;
    const struct port *via; // borrowed, valid as long as `req`; NULL: no exposed port
    struct call_tap *tap;   // owned; for the call log; NULL: nothing is recorded
    enum route_use use;
    bool wake_owed; // on_woken will be called
    bool is_kept;   // the connection was used before
    enum stream_state state;
};

static void on_woken(struct sandbox *sb, const struct err *e, void *ctx);
static void dial(struct proxy_stream *s);
static void on_connected(struct upstream_conn *conn, const struct err *e, void *ctx);
static void start_call(struct proxy_stream *s);
static void on_request_data(struct http_request *req, const char *data, size_t len, void *ctx);
static void on_request_end(struct http_request *req, void *ctx);
static void on_upstream_drain(void *ctx);
static void on_interim(int status, const struct http_header *headers, size_t count, void *ctx);
static void on_head(int status, const struct http_header *headers, size_t count, void *ctx);
static void on_answer_data(const char *data, size_t len, void *ctx);
static void on_answer_trailers(const struct http_header *trailers, size_t count, void *ctx);
static void on_answer_drain(void *ctx);
static void on_answer_shut(void *ctx);
static void on_answer_end(const struct err *e, void *ctx);
static void on_client_gone(void *ctx);

#define ANSWER_EVENTS                                                       \
    .on_head = on_head, .on_data = on_answer_data, .on_end = on_answer_end, \
    .on_drain = on_upstream_drain, .on_interim = on_interim, .on_trailers = on_answer_trailers
static const struct http_conn_events UPSTREAM_EVENTS = {ANSWER_EVENTS};
static const struct http_conn_events UPGRADE_EVENTS = {ANSWER_EVENTS, .on_shut = on_answer_shut};
static const struct http_body_events CLIENT_EVENTS = {.on_data = on_request_data,
                                                      .on_end = on_request_end};

// ---- life
static void set_state(struct proxy_stream *s, enum stream_state to)
{
    static const unsigned ALLOWED[] = {
        [STREAM_WAKING] = 1u << STREAM_DIALING | 1u << STREAM_WAITING | 1u << STREAM_DONE,
        [STREAM_DIALING] = 1u << STREAM_WAITING | 1u << STREAM_DONE,
        [STREAM_WAITING] = 1u << STREAM_DIALING | 1u << STREAM_ANSWERING | 1u << STREAM_TUNNEL |
                           1u << STREAM_DONE, // DIALING: a kept connection was stale
        [STREAM_ANSWERING] = 1u << STREAM_DONE,
        [STREAM_TUNNEL] = 1u << STREAM_DONE,
        [STREAM_DONE] = 0,
    };
    assert(ALLOWED[s->state] & 1u << to);
    s->state = to;
}

static void stream_free(struct proxy_stream *s)
{
    if (s->conn || s->dial || s->wake_owed || s->state != STREAM_DONE)
        return;
    free(s->target);
    free(s);
}

// Write the end of the call, and what the network refused and allowed meanwhile, into the call log.
static void end_tap(struct proxy_stream *s, const char *fate)
{
    if (!s->tap)
        return;
    call_tap_end(steal(&s->tap), fate);
    usage_note_network(s->sb, USAGE_NOTE_CALL);
}

// The client has been answered or is gone. Return the request, for a last answer.
static struct http_request *detach(struct proxy_stream *s)
{
    end_tap(s, "cut off");
    struct sandbox *sb = steal(&s->sb);
    if (s->use == ROUTE_USED)
        sandbox_touch(sb);
    LIST_REMOVE(s, link);
    sb->stream_count--;
    sb->passive_count -= s->use != ROUTE_USED;
    set_state(s, STREAM_DONE);
    return steal(&s->req);
}

// Release the guest's side: the result of a dial is kept for others, a call is cut off.
static void release(struct proxy_stream *s)
{
    if (s->dial)
        upstream_dial_cancel(steal(&s->dial));
    if (s->conn)
        upstream_drop(s->conn); // on_answer_end follows, now or later, and frees the stream
    else
        stream_free(s);
}

static struct call_tap *tap_of(struct sandbox *sb, struct http_request *req,
                               const struct proxy_target *to)
{
    const struct call_place place = sandbox_calls(sb);
    if (!call_logs_is_on(place.logs) || to->via || !proxy_has_token(req, sb, to))
        return NULL;
    char *who auto_free = api_keys_who(sb->store->api_keys, req);
    return call_tap_new(&place, req, to->port, to->path, who);
}

void proxy_stream_start(struct sandbox *sb, struct http_request *req, const struct proxy_target *to)
{
    struct proxy_stream *s = xcalloc(1, sizeof *s);
    *s = (struct proxy_stream){
        .sb = sb, .req = req, .port = to->port, .via = to->via, .state = STREAM_WAKING};
    s->target = str_printf("%s%s", *to->path ? "" : "/", to->target);
    s->use = route_use(to->port, http_request_method(req), to->path);
    s->tap = tap_of(sb, req, to);
    LIST_INSERT_HEAD(&sb->streams, s, link);
    sb->stream_count++;
    sb->passive_count += s->use != ROUTE_USED;
    if (s->use != ROUTE_NOT_USED)
        sandbox_touch(sb);
    http_request_on_close(req, on_client_gone, s);
    if (sb->state == SANDBOX_RUNNING) {
        dial(s);
        return;
    }
    s->wake_owed = true;
    sb->store->hooks->wake(sb, on_woken, s);
}

// ---- wake and dial
static void on_woken(struct sandbox *sb, const struct err *e, void *ctx)
{
    struct proxy_stream *s = ctx;
    (void)sb;
    s->wake_owed = false;
    if (s->state == STREAM_DONE) {
        stream_free(s);
    } else if (e) {
        struct store *store = s->sb->store;
        char *id auto_free = xstrdup(s->sb->id);
        struct http_request *req = detach(s);
        stream_free(s);
        proxy_error_wake(req, store, id, e);
    } else {
        dial(s);
    }
}

static bool is_kernel(const struct proxy_stream *s)
{
    return s->port == KERNEL_PORT && s->sb->facts.python;
}

static void dial_again(struct proxy_stream *s)
{
    const struct upstream_patience patience = {.closed_ms = is_kernel(s) ? KERNEL_WAIT_MS : 0,
                                               .ended_ms = ENDED_WAIT_MS};
    set_state(s, STREAM_DIALING);
    s->is_kept = false;
    s->dial = upstream_dial(&s->sb->upstream, machine_vmnet(s->sb->machine), s->port,
                            UPSTREAM_DIAL_MS, patience, on_connected, s);
}

static void dial(struct proxy_stream *s)
{
    s->conn = upstream_take_idle(&s->sb->upstream, s->port);
    s->is_kept = s->conn;
    if (s->conn)
        start_call(s);
    else
        dial_again(s);
}

static void on_connected(struct upstream_conn *conn, const struct err *e, void *ctx)
{
    struct proxy_stream *s = ctx;
    s->dial = NULL;
    s->conn = conn;
    if (conn) {
        start_call(s);
        return;
    }
    char *id auto_free = xstrdup(s->sb->id);
    int port = s->port;
    bool kernel_is_away = e->code == ERR_NOT_FOUND && is_kernel(s);
    struct http_request *req = detach(s);
    stream_free(s);
    if (kernel_is_away)
        proxy_error_kernel(req, id);
    else
        proxy_error_port(req, id, port, e);
}

// ---- the request
static void start_call(struct proxy_stream *s)
{
    struct proxy_head head;
    bool offers = s->port != ENVD_PORT && http_request_upgrade(s->req);
    int64_t length = http_request_length(s->req);
    proxy_head_init(&head, s->req, s->sb, s->port, offers);
    if (s->via)
        ports_edit_head(s->via, s->req, &head);
    set_state(s, STREAM_WAITING);
    http_conn_call(s->conn->http, http_request_method(s->req), s->target, head.headers, head.count,
                   length, offers ? &UPGRADE_EVENTS : &UPSTREAM_EVENTS, s);
    proxy_head_fini(&head);
    if (length != 0)
        http_request_stream(s->req, &CLIENT_EVENTS, s);
    else
        call_tap_request_end(s->tap);
}

// After the whole answer the connection is gone, and what the client still sends is dropped.
static void on_request_data(struct http_request *req, const char *data, size_t len, void *ctx)
{
    struct proxy_stream *s = ctx;
    call_tap_request(s->tap, data, len);
    if (s->conn && !http_conn_write(s->conn->http, data, len))
        http_request_pause(req);
}

static void on_request_end(struct http_request *req, void *ctx)
{
    struct proxy_stream *s = ctx;
    call_tap_request_end(s->tap);
    if (!s->conn || !s->sb)
        return;
    struct http_header trailers[HTTP_HEADERS_MAX];
    size_t count = proxy_head_trailers(req, s->sb, s->port, trailers);
    for (size_t i = 0; i < count; i++)
        http_conn_trailer(s->conn->http, trailers[i].name, trailers[i].value);
    http_conn_finish(s->conn->http);
}

static void on_upstream_drain(void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->req)
        http_request_resume(s->req);
}

// ---- the answer
static int64_t answer_length(int status, const struct http_header *headers, size_t count)
{
    int64_t length = -1;
    const char *declared = http_header_get(headers, count, "Content-Length");
    if (declared && str_to_int(declared, 0, INT64_MAX, &length))
        return length;
    return status == 204 || status == 304 ? 0 : -1;
}

static void pass_headers(struct proxy_stream *s, const struct http_header *headers, size_t count)
{
    struct http_header passed[HTTP_HEADERS_MAX];
    size_t n = route_filter(headers, count, passed);
    bool cookies = !s->via || ports_take_cookies(s->via, s->req);
    for (size_t i = 0; i < n; i++)
        if (cookies || !http_name_is(passed[i].name, "Set-Cookie"))
            http_response_header(s->req, passed[i].name, passed[i].value);
}

static void on_interim(int status, const struct http_header *headers, size_t count, void *ctx)
{
    struct proxy_stream *s = ctx;
    if (!s->req)
        return;
    pass_headers(s, headers, count);
    http_response_interim(s->req, status);
}

static void on_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    struct proxy_stream *s = ctx;
    if (!s->req)
        return;
    call_tap_head(s->tap, status);
    upstream_heard(s->conn, headers, count);
    const char *protocol = http_header_get(headers, count, "Upgrade");
    pass_headers(s, headers, count);
    http_response_on_drain(s->req, on_answer_drain, s);
    if (status == 101) {
        set_state(s, STREAM_TUNNEL);
        http_response_upgrade(s->req, protocol ? protocol : http_request_upgrade(s->req),
                              &CLIENT_EVENTS, s);
        return;
    }
    set_state(s, STREAM_ANSWERING);
    http_response_begin(s->req, status, answer_length(status, headers, count));
}

static void on_answer_data(const char *data, size_t len, void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->req && !http_response_write(s->req, data, len))
        http_conn_pause(s->conn->http);
    call_tap_answer(s->tap, data, len);
}

static void on_answer_trailers(const struct http_header *trailers, size_t count, void *ctx)
{
    struct proxy_stream *s = ctx;
    for (size_t i = 0; s->req && i < count; i++)
        http_response_trailer(s->req, trailers[i].name, trailers[i].value);
}

static void on_answer_drain(void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->conn)
        http_conn_resume(s->conn->http);
}

static void on_answer_shut(void *ctx)
{
    struct proxy_stream *s = ctx;
    if (s->req)
        http_response_shut(s->req);
}

static bool is_begun(const struct proxy_stream *s)
{
    return s->state == STREAM_ANSWERING || s->state == STREAM_TUNNEL;
}

// The guest's server may have closed a kept connection just when it was used again. A GET or HEAD
// may be sent twice.
static bool may_go_again(const struct proxy_stream *s)
{
    const char *method = http_request_method(s->req);
    return s->is_kept && s->state == STREAM_WAITING && http_request_length(s->req) == 0 &&
           (str_eq(method, "GET") || str_eq(method, "HEAD")) && !http_request_upgrade(s->req);
}

static void on_answer_end(const struct err *e, void *ctx)
{
    struct proxy_stream *s = ctx;
    struct upstream_conn *conn = steal(&s->conn);
    if (!e)
        upstream_give(conn); // closes it if it cannot be used again
    if (s->state == STREAM_DONE) {
        stream_free(s);
        return;
    }
    if (e && may_go_again(s)) {
        dial_again(s);
        return;
    }
    bool begun = is_begun(s);
    char *id auto_free = xstrdup(s->sb->id);
    end_tap(s, e ? "connection lost" : NULL);
    struct http_request *req = detach(s);
    stream_free(s);
    if (!e)
        http_response_end(req);
    else if (begun)
        http_response_abort(req);
    else
        // The guest may have acted on the request.
        proxy_error(req, 502, id, NULL, "The sandbox closed the connection before it answered: %s",
                    e->msg);
}

// ---- seen and ended from outside
static bool lasts(const struct proxy_stream *s)
{
    const char *type = http_request_header(s->req, "Content-Type");
    return s->use == ROUTE_OPENED || http_request_upgrade(s->req) ||
           (type &&
            (str_starts(type, CONNECT_STREAM_TYPE) || str_starts(type, CONNECT_STREAM_PROTO_TYPE)));
}

bool proxy_answers(const struct sandbox *sb)
{
    const struct proxy_stream *s;
    LIST_FOREACH (s, &sb->streams, link)
        if (!lasts(s))
            return true;
    return false;
}

static void on_client_gone(void *ctx)
{
    struct proxy_stream *s = ctx;
    end_tap(s, "client left");
    detach(s);
    release(s);
}

void proxy_cut_streams(struct sandbox *sb)
{
    struct proxy_stream *next;
    ports_cut(sb);
    for (struct proxy_stream *s = LIST_FIRST(&sb->streams); s; s = next) {
        next = LIST_NEXT(s, link);
        bool begun = is_begun(s);
        bool sent = s->state == STREAM_WAITING;
        end_tap(s, "sandbox paused or ended");
        struct http_request *req = detach(s);
        release(s);
        if (begun)
            http_response_abort(req);
        else if (sb->state == SANDBOX_KILLING)
            proxy_error_ending(req, sb);
        else if (sent) // the guest may have acted on it, so the client must not simply repeat it
            proxy_error(req, 502, sb->id, NULL,
                        "The sandbox was paused before it answered. It may have acted on the "
                        "request, or may do so after a resume");
        else
            proxy_error_transition(req, sb);
    }
}

void proxy_disconnect(struct sandbox *sb)
{
    proxy_cut_streams(sb);
    ports_close_all(sb);
}
