// SPDX-License-Identifier: Apache-2.0
// Progress of a request with a progressToken.
//
// Theory of operation. There is one timer. With unsent output it waits until MESSAGE_MS after the
// last message with output; without, until the next beat. Output that arrives after that time is
// sent at once, inside progress_output, so the first line of a command is not delayed. Between two
// messages at most PENDING_BYTES are kept, a head and a tail.
//
// `progress` must increase with each message. It is the seconds since the beginning, in sixteenths,
// which are whole in binary and so short in JSON.
#include "mcp-server/protocol/progress.h"

#include <string.h>

#include "mcp-server/protocol/exchange.h"
#include "mcp-server/text/excerpt.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"

#define FIRST_BEAT_MS 1000
#define BEAT_MS       2000
#define MESSAGE_MS    100  // at most ten messages a second
#define PENDING_BYTES 8192 // of output in one message
#define TORN_MAX      3    // bytes of an incomplete character

struct progress {
    uv_timer_t timer;
    struct exchange *x; // borrowed
    struct session *session;
    char *(*tell)(int seconds, void *ctx);
    void *ctx;
    int64_t started_ms;
    int64_t sent_ms;    // the last message; 0: none yet
    int64_t output_ms;  // the last one with output
    int64_t sixteenths; // last value sent
    struct excerpt pending;
    struct {
        char bytes[TORN_MAX];
        size_t len;
    } torn[PROGRESS_STREAMS]; // the incomplete character at the end of each stream
};

static void on_timer(uv_timer_t *timer);

// ---- 1. when

static int64_t due_ms(const struct progress *p)
{
    if (p->pending.total > 0)
        return p->output_ms + MESSAGE_MS;
    return p->sent_ms ? p->sent_ms + BEAT_MS : p->started_ms + FIRST_BEAT_MS;
}

static void arm(struct progress *p)
{
    int64_t wait = due_ms(p) - clock_mono_ms();
    uv_timer_start(&p->timer, on_timer, wait > 0 ? (uint64_t)wait : 0, 0);
}

// ---- 2. what

static bool is_busy(const struct progress *p)
{
    struct outlet *outlet = p->x->outlet;
    return !outlet || outlet->is_busy(outlet);
}

// Send a message; takes `text`.
static void emit(struct progress *p, json_t *text)
{
    p->sent_ms = clock_mono_ms();
    int64_t elapsed = (p->sent_ms - p->started_ms) * 16 / 1000;
    p->sixteenths = elapsed > p->sixteenths ? elapsed : p->sixteenths + 1;
    json_t *params = json_object();
    json_object_set(params, "progressToken", p->x->progress_token);
    json_object_set_new(params, "progress", json_real((double)p->sixteenths / 16));
    if (p->x->era->progress_message)
        json_object_set(params, "message", text);
    json_decref(text);
    exchange_notify(p->x, "notifications/progress", params);
}

static void send_output(struct progress *p)
{
    json_t *text = excerpt_text(&p->pending, "");
    excerpt_clear(&p->pending);
    emit(p, text);
    p->output_ms = p->sent_ms;
}

static void send_beat(struct progress *p)
{
    int seconds = (int)((clock_mono_ms() - p->started_ms) / 1000);
    char *text auto_free = p->tell(seconds, p->ctx);
    emit(p, json_lossy_string(text, strlen(text)));
}

static void on_timer(uv_timer_t *timer)
{
    struct progress *p = timer->data;
    if (is_busy(p)) {
        uv_timer_start(timer, on_timer, MESSAGE_MS, 0);
        return;
    }
    if (p->pending.total > 0)
        send_output(p);
    else
        send_beat(p);
    arm(p);
}

// ---- 3. output

// Move whole characters to `pending`; keep an incomplete one.
static void take(struct progress *p, enum progress_stream stream, const char *data, size_t len)
{
    struct buf joined auto_buf = BUF_INIT;
    if (p->torn[stream].len > 0) {
        buf_add(&joined, p->torn[stream].bytes, p->torn[stream].len);
        buf_add(&joined, data, len);
        data = joined.data;
        len = joined.len;
    }
    size_t torn = excerpt_torn_at_end(data, len);
    excerpt_add(&p->pending, data, len - torn);
    memcpy(p->torn[stream].bytes, data + len - torn, torn);
    p->torn[stream].len = torn;
}

void progress_output(struct progress *p, enum progress_stream stream, const char *data, size_t len)
{
    if (!p->x->era->progress_message)
        return;
    take(p, stream, data, len);
    if (p->pending.total == 0)
        return;
    if (clock_mono_ms() >= due_ms(p) && !is_busy(p))
        send_output(p);
    arm(p);
}

// ---- 4. from its beginning to its end

struct progress *progress_start(struct exchange *x, char *(*tell)(int seconds, void *ctx),
                                void *ctx)
{
    struct progress *p = xmalloc(sizeof *p);
    *p = (struct progress){
        .x = x, .session = x->session, .tell = tell, .ctx = ctx, .started_ms = clock_mono_ms()};
    excerpt_init(&p->pending, PENDING_BYTES);
    session_hold(p->session);
    uv_timer_init(p->session->loop, &p->timer);
    p->timer.data = p;
    arm(p);
    return p;
}

static void on_closed(uv_handle_t *handle)
{
    struct progress *p = handle->data;
    struct session *s = p->session;
    free(p);
    session_release(s);
}

void progress_stop(struct progress *p)
{
    for (int i = 0; i < PROGRESS_STREAMS; i++)
        excerpt_add(&p->pending, p->torn[i].bytes, p->torn[i].len);
    if (p->pending.total > 0 && !is_busy(p))
        send_output(p);
    excerpt_fini(&p->pending);
    uv_close((uv_handle_t *)&p->timer, on_closed);
}
