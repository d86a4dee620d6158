// SPDX-License-Identifier: Apache-2.0
// An HTTP client: libcurl's multi interface on a libuv loop. The theory of operation is here.
//
// curl asks for sockets to be watched (on_socket) and for one timer (on_timer). Their events go to
// curl_multi_socket_action. Inside it, curl calls the callbacks of http_client_fetch.c, and through
// them the caller. Nothing may be removed while curl is on the stack. So requests of callers
// (cancel, resume, close) are marked, and the idle handle carries them out on the next turn.
// Finished fetches are collected after curl has returned.
//
// Connections are kept and shared. curl silently repeats a request when a pooled connection dies
// before a byte of the answer came, although the peer may have acted on it. Only GET and HEAD may
// be repeated: for others on_prerequest stops the second attempt, and the fetch ends with an error
// that says so. A connection that died while it was idle is different: curl checks a connection
// before it takes it from the pool, and makes a new one. (curl 7.88 takes a connection that was
// reset, not closed, for a live one: curl's issue 10646. A request on it counts as lost.)
//
// The library is loaded with the first fetch: see http_client_curl.c.
#include "sandbox-backend/net/http_client.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/http_client_internal.h"

#define POOL_MAX 32 // idle connections

// A socket that curl wants to have watched.
struct client_socket {
    uv_poll_t poll;
    struct http_client *client;
    struct client_socket *next, **link;
    curl_socket_t fd;
    int wanted; // UV_READABLE, UV_WRITABLE: what curl waits for
};

static void collect_ends(struct http_client *c);
static void tear_down(struct http_client *c);

// ---- into curl and out again

static void leave_curl(struct http_client *c)
{
    c->in_curl = false;
    if (c->closing)
        tear_down(c);
    else
        collect_ends(c);
}

static void act(struct http_client *c, curl_socket_t fd, int events)
{
    if (c->closing)
        return;
    int running;
    c->in_curl = true;
    curl_multi_socket_action(c->multi, fd, events, &running);
    leave_curl(c);
}

// libuv reports POLLERR as an error without events, and stops the poll. Bytes of the answer may
// still be unread, and only a read or a write tells what happened ("Connection reset by peer"). So
// start the poll again, and tell curl that the socket is ready for what curl waits for.
// CURL_CSELECT_ERR would end the fetch at once as "select/poll returned error", and drop the bytes.
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct client_socket *s = poll->data;
    int flags = 0;
    if (status < 0) {
        events = s->wanted;
        uv_poll_start(poll, s->wanted, on_poll);
    }
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    act(s->client, s->fd, flags);
}

static void on_timeout(uv_timer_t *timer)
{
    act(timer->data, CURL_SOCKET_TIMEOUT, 0);
}

// ---- what curl wants watched

static void release_handle(struct http_client *c)
{
    if (--c->handles > 0)
        return;
    void (*on_closed)(void *ctx) = c->on_closed;
    void *ctx = c->on_closed_ctx;
    free(c);
    if (on_closed)
        on_closed(ctx);
}

static void on_socket_closed(uv_handle_t *handle)
{
    struct client_socket *s = handle->data;
    struct http_client *c = s->client;
    free(s);
    release_handle(c);
}

static void socket_drop(struct client_socket *s)
{
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    uv_close((uv_handle_t *)&s->poll, on_socket_closed);
}

static struct client_socket *socket_watch(struct http_client *c, curl_socket_t fd)
{
    struct client_socket *s = xcalloc(1, sizeof *s);
    if (uv_poll_init(c->loop, &s->poll, fd) != 0) {
        free(s);
        return NULL;
    }
    s->client = c;
    s->fd = fd;
    s->poll.data = s;
    s->next = c->sockets;
    s->link = &c->sockets;
    if (s->next)
        s->next->link = &s->next;
    c->sockets = s;
    c->handles++;
    curl_multi_assign(c->multi, fd, s);
    return s;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    (void)easy;
    struct http_client *c = ctx;
    struct client_socket *s = socket_ctx;
    if (what == CURL_POLL_REMOVE) {
        if (s)
            socket_drop(s);
        curl_multi_assign(c->multi, fd, NULL);
        return 0;
    }
    if (!s)
        s = socket_watch(c, fd);
    if (!s)
        return -1;
    s->wanted = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&s->poll, s->wanted, on_poll) == 0 ? 0 : -1;
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    (void)multi;
    struct http_client *c = ctx;
    if (timeout_ms < 0) {
        uv_timer_stop(&c->timer);
        return 0;
    }
    uv_update_time(c->loop);
    uv_timer_start(&c->timer, on_timeout, (uint64_t)timeout_ms, 0);
    return 0;
}

// ---- the end of fetches

static void unlink_fetch(struct http_fetch *f)
{
    *f->link = f->next;
    if (f->next)
        f->next->link = f->link;
}

// Remove a fetch from the client, free it, and tell its caller.
static void end_fetch(struct http_fetch *f, const struct err *e)
{
    struct http_fetch_events events = f->events;
    void *ctx = f->ctx;
    unlink_fetch(f);
    if (f->easy)
        curl_multi_remove_handle(f->client->multi, f->easy);
    http_fetch_free(f);
    events.on_end(e, ctx);
}

static void end_canceled(struct http_fetch *f)
{
    struct err e = ERR_INIT;
    err_set(&e, ERR_CANCELED, "the request was canceled");
    end_fetch(f, &e);
}

static void collect_ends(struct http_client *c)
{
    int left;
    const CURLMsg *message;
    while (!c->closing && (message = curl_multi_info_read(c->multi, &left))) {
        struct http_fetch *f = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&f);
        struct err e = ERR_INIT;
        http_fetch_result(f, message->data.result, &e);
        end_fetch(f, err_is(&e) ? &e : NULL);
    }
}

// ---- what callers asked for

static struct http_fetch *find_canceled(const struct http_client *c)
{
    struct http_fetch *f = c->fetches;
    while (f && !f->canceled && !err_is(&f->e))
        f = f->next;
    return f;
}

// Give a fetch to curl. curl takes none while it is on the stack; the fetch then waits for on_idle.
static void add_to_curl(struct http_fetch *f)
{
    if (f->added || f->client->in_curl || err_is(&f->e) || f->canceled)
        return;
    f->added = true;
    CURLMcode code = curl_multi_add_handle(f->client->multi, f->easy);
    if (code != CURLM_OK)
        err_set(&f->e, ERR_INTERNAL, "curl cannot start the request: %s",
                curl_multi_strerror(code));
}

static void resume(struct http_fetch *f)
{
    if (!f->resume_upload && !f->resume_download)
        return;
    if (f->resume_upload)
        f->upload_paused = false;
    if (f->resume_download)
        f->download_paused = false;
    f->resume_upload = f->resume_download = false;
    int paused =
        (f->upload_paused ? CURLPAUSE_SEND : 0) | (f->download_paused ? CURLPAUSE_RECV : 0);
    curl_easy_pause(f->easy, paused); // may call the caller with bytes that were held back
}

static void on_idle(uv_idle_t *idle)
{
    struct http_client *c = idle->data;
    uv_idle_stop(idle);
    for (struct http_fetch *f = c->fetches; f; f = f->next)
        add_to_curl(f);
    // Each on_end may cancel other fetches or close the client, so start again after each one.
    for (struct http_fetch *f; !c->closing && (f = find_canceled(c));) {
        if (f->canceled) {
            end_canceled(f);
        } else {
            struct err e = f->e;
            end_fetch(f, &e);
        }
    }
    if (c->closing || !c->multi)
        return;
    c->in_curl = true;
    for (struct http_fetch *f = c->fetches; f && !c->closing; f = f->next)
        resume(f);
    leave_curl(c);
}

static void kick(struct http_client *c)
{
    if (!c->closing)
        uv_idle_start(&c->idle, on_idle);
}

void http_fetch_cancel(struct http_fetch *f)
{
    f->canceled = true;
    kick(f->client);
}

void http_fetch_resume_upload(struct http_fetch *f)
{
    f->resume_upload = true;
    kick(f->client);
}

void http_fetch_resume_download(struct http_fetch *f)
{
    f->resume_download = true;
    kick(f->client);
}

// ---- the beginning

struct http_client *http_client_new(uv_loop_t *loop)
{
    struct http_client *c = xcalloc(1, sizeof *c);
    c->loop = loop;
    uv_timer_init(loop, &c->timer);
    c->timer.data = c;
    uv_idle_init(loop, &c->idle);
    c->idle.data = c;
    c->handles = 2;
    return c;
}

static int make_multi(struct http_client *c, struct err *e)
{
    if (http_client_load(e) < 0)
        return -1;
    c->multi = curl_multi_init();
    if (!c->multi)
        abort();
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)POOL_MAX);
    return 0;
}

struct http_fetch *http_fetch_start(struct http_client *c, const struct http_fetch_opts *opts,
                                    const struct http_fetch_events *events, void *ctx)
{
    if (c->closing)
        abort();
    struct http_fetch *f = xcalloc(1, sizeof *f);
    f->client = c;
    f->events = *events;
    f->ctx = ctx;
    f->next = c->fetches;
    f->link = &c->fetches;
    if (f->next)
        f->next->link = &f->next;
    c->fetches = f;
    if (c->multi || make_multi(c, &f->e) == 0) {
        http_fetch_setup(f, opts);
        add_to_curl(f);
    }
    if (!f->added || err_is(&f->e))
        kick(c); // an invalid fetch, too, gets its on_end from the loop
    return f;
}

// ---- the end

static void on_own_closed(uv_handle_t *handle)
{
    release_handle(handle->data);
}

// curl is not on the stack, and every fetch has had its on_end.
static void tear_down(struct http_client *c)
{
    while (c->fetches) {
        struct http_fetch *f = c->fetches;
        unlink_fetch(f);
        if (f->easy)
            curl_multi_remove_handle(c->multi, f->easy);
        http_fetch_free(f);
    }
    if (c->multi)
        curl_multi_cleanup(c->multi);
    while (c->sockets)
        socket_drop(c->sockets);
    uv_close((uv_handle_t *)&c->timer, on_own_closed);
    uv_close((uv_handle_t *)&c->idle, on_own_closed);
}

static struct http_fetch *find_unended(const struct http_client *c)
{
    struct http_fetch *f = c->fetches;
    while (f && f->ended)
        f = f->next;
    return f;
}

void http_client_close(struct http_client *c, void (*on_closed)(void *ctx), void *ctx)
{
    if (c->closing)
        return;
    c->closing = true;
    c->on_closed = on_closed;
    c->on_closed_ctx = ctx;
    for (struct http_fetch *f; (f = find_unended(c));) {
        struct err e = ERR_INIT;
        err_set(&e, ERR_CANCELED, "the client was closed");
        f->ended = true;
        f->events.on_end(&e, f->ctx);
    }
    if (!c->in_curl)
        tear_down(c);
}
