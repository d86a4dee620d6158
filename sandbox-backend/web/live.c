// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/web/live.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/web/socket.h"

#define EVERY_MS         1000
#define ANSWER_BYTES_MAX ((size_t)8 << 20) // thousands of sandboxes

struct live_page {
    struct live *live;
    struct live_page *next, **link;
    struct web_socket *ws;
};

static void page_free(struct live_page *p)
{
    *p->link = p->next;
    if (p->next)
        p->next->link = p->link;
    free(p);
}

// A page that has not taken the figures before gets none of these.
static void send_all(struct live *l, const struct buf *text)
{
    for (struct live_page *p = l->first; p; p = p->next)
        if (!web_socket_is_full(p->ws))
            web_socket_send(p->ws, true, text->data, text->len);
}

// Send an answer to all, and keep it for pages that come before the next one.
static void send_answer(struct live *l)
{
    l->answered_ms = clock_mono_ms();
    send_all(l, &l->answer);
}

static void send_error(struct live *l, const char *message)
{
    struct buf text auto_buf = BUF_INIT;
    json_t *error = json_pack("{s:i, s:o}", "code", 503, "message",
                              json_lossy_string(message, strlen(message)));
    json_to_buf(&text, error);
    json_decref(error);
    send_all(l, &text);
}

// ---- asking

static void on_head(int status, const struct http_header *headers, size_t count, const char *url,
                    void *ctx)
{
    (void)headers;
    (void)count;
    (void)url;
    struct live *l = ctx;
    l->status = status;
}

static bool on_data(const char *data, size_t len, void *ctx)
{
    struct live *l = ctx;
    if (!buf_try_add(&l->answer, data, len, ANSWER_BYTES_MAX))
        l->status = 0;
    return true;
}

static void on_end(const struct err *e, void *ctx)
{
    struct live *l = ctx;
    struct err why = e ? *e : ERR_INIT;
    l->fetch = NULL;
    if (e)
        backend_explain(l->backend, &why);
    if (l->is_closing)
        buf_fini(&l->answer);
    else if (e)
        send_error(l, why.msg);
    else if (l->status == 0)
        send_error(l, "the daemon's answer is too long");
    else
        send_answer(l); // also the daemon's own {"code", "message"}
}

static void ask(struct live *l)
{
    static const struct http_fetch_events EVENTS = {on_head, on_data, on_end, NULL};
    struct backend_request r = {.method = "GET"};
    if (l->fetch)
        return;
    backend_target_parse("/api/sandboxes/stats", &r.to);
    buf_clear(&l->answer);
    l->answered_ms = 0;
    l->fetch = backend_fetch(l->backend, &r, &EVENTS, l);
}

static void on_timer(uv_timer_t *timer)
{
    ask(timer->data);
}

// ---- pages

static void on_message(const char *data, size_t len, void *ctx)
{
    (void)data;
    (void)len;
    (void)ctx; // pages only listen
}

static void on_drain(void *ctx)
{
    (void)ctx;
}

static void on_close(void *ctx)
{
    struct live_page *p = ctx;
    struct live *l = p->live;
    page_free(p);
    if (!l->first)
        uv_timer_stop(&l->timer);
}

void live_init(struct live *l, uv_loop_t *loop, const struct backend *backend)
{
    *l = (struct live){.backend = backend};
    uv_timer_init(loop, &l->timer);
    l->timer.data = l;
}

void live_accept(struct live *l, struct http_request *req)
{
    static const struct web_socket_events EVENTS = {on_message, on_drain, on_close};
    struct live_page *p = xcalloc(1, sizeof *p);
    p->live = l;
    p->ws = web_socket_accept(req, &EVENTS, p);
    if (!p->ws) {
        free(p);
        return;
    }
    if (!l->first)
        uv_timer_start(&l->timer, on_timer, EVERY_MS, EVERY_MS);
    p->link = &l->first;
    p->next = l->first;
    if (p->next)
        p->next->link = &p->next;
    l->first = p;
    if (l->answered_ms && clock_mono_ms() - l->answered_ms < EVERY_MS)
        web_socket_send(p->ws, true, l->answer.data, l->answer.len);
    else
        ask(l);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct live *l = handle->data;
    l->on_closed(l->ctx);
}

void live_close(struct live *l, void (*on_closed)(void *ctx), void *ctx)
{
    l->is_closing = true;
    l->on_closed = on_closed;
    l->ctx = ctx;
    for (struct live_page *p = l->first, *next; p; p = next) {
        next = p->next;
        web_socket_close(p->ws, WEB_SOCKET_LEAVING);
        page_free(p);
    }
    if (!l->fetch)
        buf_fini(&l->answer);
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}
