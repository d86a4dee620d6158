// SPDX-License-Identifier: Apache-2.0
// Sessions over HTTP, of the legacy era.
#include "mcp-server/web/web_session.h"

#include <string.h>

#include "mcp-server/context/context.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define SWEEP_MS 1000 // an idle session ends at most this late

static void on_sweep(uv_timer_t *timer);

// ---- 1. the table

// Ids are random, so any part of one is a hash of it.
static struct web_session **bucket_of(struct web_sessions *all, const char *id)
{
    unsigned hash = 0;
    for (size_t i = 0; i < 8 && id[i]; i++)
        hash = hash * 33 + (unsigned char)id[i];
    return &all->table[hash % WEB_SESSION_BUCKETS];
}

static void use_list_remove(struct web_session *w)
{
    struct web_sessions *all = w->all;
    *(w->newer ? &w->newer->older : &all->newest) = w->older;
    *(w->older ? &w->older->newer : &all->oldest) = w->newer;
    w->newer = NULL;
    w->older = NULL;
}

static void use_list_add(struct web_session *w)
{
    struct web_sessions *all = w->all;
    w->older = all->newest;
    *(w->older ? &w->older->newer : &all->oldest) = w;
    all->newest = w;
    w->used_ms = clock_mono_ms();
}

void web_session_use(struct web_session *w)
{
    use_list_remove(w);
    use_list_add(w);
}

static void table_remove(struct web_session *w)
{
    struct web_session **at = bucket_of(w->all, w->id);
    while (*at != w)
        at = &(*at)->same_hash;
    *at = w->same_hash;
    use_list_remove(w);
    w->all->count--;
    w->session->caller->open.sessions--;
}

struct web_session *web_session_find(struct web_sessions *all, const char *id,
                                     const struct caller *caller)
{
    struct web_session *w = *bucket_of(all, id);
    while (w && strcmp(w->id, id) != 0)
        w = w->same_hash;
    if (!w || !caller_is_same(w->session->caller, caller))
        return NULL;
    web_session_use(w);
    return w;
}

// ---- 2. streams

struct web_stream *web_session_standalone(struct web_session *w)
{
    if (!w->standalone)
        w->standalone = web_stream_new(w->all->streams, w->session->caller, &w->streams, 0);
    return w->standalone;
}

struct web_stream *web_session_add_stream(struct web_session *w)
{
    return web_stream_new(w->all->streams, w->session->caller, &w->streams, ++w->last_stream);
}

struct web_stream *web_session_stream(const struct web_session *w, unsigned id)
{
    struct web_stream *s = w->streams;
    while (s && s->id != id)
        s = s->sibling;
    return s;
}

static void on_send(struct outlet *o, const json_t *message)
{
    web_stream_send(web_session_standalone(container_of(o, struct web_session, outlet)), message);
}

static bool on_is_busy(struct outlet *o)
{
    const struct web_session *w = container_of(o, struct web_session, outlet);
    return w->standalone && web_stream_is_busy(w->standalone);
}

// ---- 3. the beginning

static bool is_in_use(const struct web_session *w)
{
    if (w->session->first)
        return true;
    for (const struct web_stream *s = w->streams; s; s = s->sibling)
        if (s->req)
            return true;
    return false;
}

static int64_t idle_ms(const struct web_session *w)
{
    return clock_mono_ms() - w->used_ms;
}

static bool may_go_for(const struct web_session *w, const struct caller *caller)
{
    return w->session->caller == caller && !is_in_use(w);
}

static bool make_room(struct web_sessions *all, const struct caller *caller)
{
    if (caller_has_room(caller, caller->open.sessions, all->count, 1, all->max))
        return true;
    struct web_session *w = all->oldest;
    while (w && idle_ms(w) >= WEB_SESSION_SPARE_MS && !may_go_for(w, caller))
        w = w->newer;
    if (!w || idle_ms(w) < WEB_SESSION_SPARE_MS)
        return false;
    log_info("session.evict", "idle_ms=%lld", (long long)idle_ms(w));
    web_session_end(w);
    return true;
}

struct web_session *web_session_open(struct web_sessions *all, struct caller *caller)
{
    unsigned char random[WEB_SESSION_ID_BYTES];
    if (!make_room(all, caller))
        return NULL;
    struct web_session *w = xmalloc(sizeof *w);
    *w = (struct web_session){.outlet = {.send = on_send, .is_busy = on_is_busy},
                              .all = all,
                              .session = session_new(all->loop, all->context, caller)};
    w->session->outlet = &w->outlet;
    random_bytes(random, sizeof random);
    hex_encode(w->id, random, sizeof random);
    struct web_session **bucket = bucket_of(all, w->id);
    w->same_hash = *bucket;
    *bucket = w;
    use_list_add(w);
    all->count++;
    caller->open.sessions++;
    if (!uv_is_active((uv_handle_t *)&all->sweep))
        uv_timer_start(&all->sweep, on_sweep, SWEEP_MS, SWEEP_MS);
    return w;
}

// ---- 4. the end

static void tell_none(struct web_sessions *all)
{
    if (!all->on_none || all->count > 0 || all->ending > 0)
        return;
    void (*on_none)(void *ctx) = steal(&all->on_none);
    on_none(all->ctx);
}

static void on_idle(void *ctx)
{
    struct web_session *w = ctx;
    struct web_sessions *all = w->all;
    while (w->streams)
        web_stream_free(w->streams);
    session_free(w->session);
    free(w);
    all->ending--;
    tell_none(all);
}

void web_session_end(struct web_session *w)
{
    struct session *session = w->session;
    table_remove(w);
    w->all->ending++;
    session->outlet = NULL;
    if (w->standalone)
        web_stream_finish(w->standalone);
    w->standalone = NULL;
    session_close(session, on_idle, w);
}

static void sweep(struct web_session *w)
{
    if (w->session->caller->revoked)
        web_session_end(w);
    else if (is_in_use(w))
        web_session_use(w); // it becomes the newest
    else if (idle_ms(w) >= w->all->idle_ms)
        web_session_end(w);
}

static void on_sweep(uv_timer_t *timer)
{
    struct web_sessions *all = timer->data;
    unsigned left = all->count;
    struct web_session *newer;
    for (struct web_session *w = all->oldest; left > 0; w = newer, left--) {
        newer = w->newer;
        sweep(w);
    }
    if (!all->oldest)
        uv_timer_stop(timer);
}

// ---- 5. all of them

void web_sessions_init(struct web_sessions *all, struct context *context,
                       struct web_streams *streams)
{
    const struct config *config = context->config;
    *all = (struct web_sessions){
        .loop = context->loop,
        .context = context,
        .streams = streams,
        .max = (unsigned)config->max_sessions,
        .idle_ms = config->session_idle_s * 1000,
    };
    uv_timer_init(all->loop, &all->sweep);
    all->sweep.data = all;
}

void web_sessions_close(struct web_sessions *all, void (*on_none)(void *ctx), void *ctx)
{
    uv_timer_stop(&all->sweep);
    while (all->oldest)
        web_session_end(all->oldest);
    all->on_none = on_none;
    all->ctx = ctx;
    tell_none(all);
}

void web_sessions_fini(struct web_sessions *all, uv_close_cb on_closed)
{
    uv_close((uv_handle_t *)&all->sweep, on_closed);
}
