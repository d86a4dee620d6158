// SPDX-License-Identifier: Apache-2.0
// A stream of server-sent events.
#include "mcp-server/web/web_stream.h"

#include <string.h>

#include "mcp-server/web/web_answer.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

static void on_beat(uv_timer_t *timer);

// ---- 1. lists

static void list_add(struct web_stream *s, struct web_stream **link)
{
    s->next = *link;
    s->link = link;
    if (s->next)
        s->next->link = &s->next;
    *link = s;
}

static void list_remove(struct web_stream *s)
{
    if (!s->link)
        return;
    if (s->all->parked_end == &s->next)
        s->all->parked_end = s->link;
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    s->link = NULL;
    s->next = NULL;
}

static void family_add(struct web_stream *s)
{
    s->sibling = *s->family;
    s->home = s->family;
    if (s->sibling)
        s->sibling->home = &s->sibling;
    *s->family = s;
}

static void family_remove(struct web_stream *s)
{
    *s->home = s->sibling;
    if (s->sibling)
        s->sibling->home = s->home;
}

void web_streams_init(struct web_streams *all, uv_loop_t *loop, unsigned max)
{
    *all = (struct web_streams){.max = max};
    all->parked_end = &all->parked;
    uv_timer_init(loop, &all->beat);
    uv_timer_init(loop, &all->reaper);
    all->beat.data = all;
    all->reaper.data = all;
}

void web_streams_close(struct web_streams *all, uv_close_cb on_closed)
{
    buf_fini(&all->scratch);
    uv_close((uv_handle_t *)&all->beat, on_closed);
    uv_close((uv_handle_t *)&all->reaper, on_closed);
}

bool web_streams_are_full(const struct web_streams *all, const struct caller *caller)
{
    return !caller_has_room(caller, caller->open.streams, all->open, 1, all->max);
}

static void beat_on(struct web_streams *all)
{
    if (!uv_is_active((uv_handle_t *)&all->beat))
        uv_timer_start(&all->beat, on_beat, WEB_STREAM_KEEPALIVE_MS, WEB_STREAM_KEEPALIVE_MS);
}

struct web_stream *web_stream_new(struct web_streams *all, struct caller *caller,
                                  struct web_stream **siblings, unsigned id)
{
    struct web_stream *s = xmalloc(sizeof *s);
    *s = (struct web_stream){
        .all = all, .caller = caller_hold(caller), .id = id, .family = siblings};
    if (siblings)
        family_add(s);
    return s;
}

// ---- 2. its connection

static void detach(struct web_stream *s)
{
    if (!s->req)
        return;
    s->req = NULL;
    s->doomed = false;
    s->all->open--;
    s->caller->open.streams--;
    list_remove(s);
}

static void on_gone(void *ctx)
{
    struct web_stream *s = ctx;
    detach(s);
    if (s->on_lost)
        s->on_lost(s->ctx);
}

static void end_answer(struct web_stream *s)
{
    struct http_request *req = s->req;
    if (!req)
        return;
    detach(s);
    http_response_end(req);
}

// Runs from the loop: the writer may be in the middle of something that the end of a connection
// would end, too.
static void on_reap(uv_timer_t *timer)
{
    struct web_streams *all = timer->data;
    struct web_stream *s = all->attached;
    while (s && !s->doomed)
        s = s->next;
    if (!s)
        return;
    log_warn("stream.overrun", "unsent=%zu", http_response_unsent(s->req));
    http_response_abort(s->req);
    uv_timer_start(timer, on_reap, 0, 0); // there may be others
    on_gone(s);
}

static bool keeps_up(struct web_stream *s)
{
    if (http_response_unsent(s->req) <= WEB_STREAM_UNSENT_MAX)
        return true;
    s->doomed = true;
    uv_timer_start(&s->all->reaper, on_reap, 0, 0);
    return false;
}

static void write_event(struct web_stream *s, unsigned number, const char *text, size_t len)
{
    if (!s->req || s->doomed || !keeps_up(s))
        return;
    s->sent = number;
    http_response_write(s->req, text, len);
}

static void prime_reader(struct web_stream *s)
{
    char text[96];
    s->sent = ++s->last;
    int len = snprintf(text, sizeof text, "id: %u.%u\nretry: %d\ndata: \n\n", s->id, s->last,
                       WEB_STREAM_RETRY_MS);
    http_response_write(s->req, text, (size_t)len);
}

void web_stream_attach(struct web_stream *s, struct http_request *req, unsigned after, bool prime)
{
    end_answer(s); // of the earlier connection, which the client has given up
    list_remove(s);
    s->req = req;
    s->until_ns = INT64_MAX;
    s->all->open++;
    s->caller->open.streams++;
    list_add(s, &s->all->attached);
    beat_on(s->all);
    http_request_on_close(req, on_gone, s);
    http_response_header(req, "Content-Type", "text/event-stream");
    http_response_header(req, "Cache-Control", "no-cache");
    http_response_header(req, "X-Accel-Buffering", "no");
    http_response_begin(req, 200, -1);
    if (prime)
        prime_reader(s);
    for (const struct web_event *e = web_log_after(&s->log, after); e; e = e->next)
        write_event(s, e->number, e->text, e->len);
    if (s->finished)
        web_stream_finish(s);
}

void web_stream_let_go(struct web_stream *s, int retry_ms)
{
    char text[48];
    if (!s->req)
        return;
    int len = snprintf(text, sizeof text, "retry: %d\n\n", retry_ms);
    http_response_write(s->req, text, (size_t)len);
    end_answer(s);
}

// Start from the first each time, because the end of one stream may end others.
void web_streams_sweep(struct web_streams *all)
{
    int64_t now_ns = clock_wall_ns();
    struct web_stream *s = all->attached;
    while (s) {
        if (s->until_ns > now_ns) {
            s = s->next;
            continue;
        }
        end_answer(s);
        s = all->attached;
    }
}

bool web_stream_is_busy(const struct web_stream *s)
{
    return s->req && http_response_unsent(s->req) > WEB_STREAM_BUSY_BYTES;
}

// ---- 3. events

static void log_event(struct web_stream *s, const struct buf *text)
{
    struct web_streams *all = s->all;
    all->log_bytes -= s->log.bytes;
    web_log_add(&s->log, s->last, text->data, text->len);
    all->log_bytes += s->log.bytes;
    struct web_stream *next;
    for (struct web_stream *p = all->parked; p && all->log_bytes > WEB_STREAM_LOGS_BYTES;
         p = next) {
        next = p->next;
        web_stream_free(p);
    }
    if (all->log_bytes > WEB_STREAM_LOGS_BYTES) {
        all->log_bytes -= s->log.bytes;
        web_log_keep_last(&s->log);
        all->log_bytes += s->log.bytes;
    }
}

void web_stream_send(struct web_stream *s, const json_t *message)
{
    struct buf *text = &s->all->scratch;
    buf_clear(text);
    s->last++;
    if (s->family)
        buf_printf(text, "event: message\nid: %u.%u\ndata: ", s->id, s->last);
    else
        buf_adds(text, "event: message\ndata: ");
    json_to_buf(text, message);
    buf_adds(text, "\n\n");
    write_event(s, s->last, text->data, text->len);
    if (s->family)
        log_event(s, text);
    web_scratch_done(text);
}

static void drop_old(struct web_streams *all)
{
    int64_t now = clock_mono_ms();
    struct web_stream *next;
    for (struct web_stream *p = all->parked; p && now - p->finished_ms > WEB_STREAM_PARKED_MS;
         p = next) {
        next = p->next;
        web_stream_free(p);
    }
}

static void on_beat(uv_timer_t *timer)
{
    static const char KEEPALIVE[] = ": keepalive\n\n";
    struct web_streams *all = timer->data;
    for (struct web_stream *s = all->attached; s; s = s->next)
        if (!web_stream_is_busy(s))
            http_response_write(s->req, KEEPALIVE, sizeof KEEPALIVE - 1);
    drop_old(all);
    if (!all->attached && !all->parked)
        uv_timer_stop(&all->beat);
}

// ---- 4. the end

static void drop_first_finished(struct web_stream *family)
{
    struct web_stream *first = NULL;
    unsigned count = 0;
    for (struct web_stream *s = family; s; s = s->sibling)
        if (s->finished) {
            first = s;
            count++;
        }
    if (count > WEB_STREAM_PARKED_MAX)
        web_stream_free(first);
}

void web_stream_finish(struct web_stream *s)
{
    if (!s->family) {
        web_stream_free(s);
        return;
    }
    end_answer(s);
    s->finished = true;
    s->finished_ms = clock_mono_ms();
    s->on_lost = NULL;
    list_add(s, s->all->parked_end);
    s->all->parked_end = &s->next;
    beat_on(s->all);
    family_remove(s); // to the front: a long call must not be dropped before short ones that
    family_add(s);    // began after it
    drop_first_finished(*s->family);
}

void web_stream_free(struct web_stream *s)
{
    end_answer(s);
    list_remove(s);
    if (s->family)
        family_remove(s);
    s->all->log_bytes -= s->log.bytes;
    web_log_fini(&s->log);
    caller_release(s->caller);
    free(s);
}
