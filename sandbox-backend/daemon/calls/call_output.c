// SPDX-License-Identifier: Apache-2.0
// Output of a call, as the call log keeps it.
#include "sandbox-backend/daemon/calls/call_output.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SCREEN_FLUSH_BYTES 4096
#define SCREEN_FLUSH_MS    2000
#define SCREEN_JOIN_MS     16 // events that come closer together are one

json_t *call_text(const struct call_place *p, const char *text, size_t len, size_t max, bool *cut)
{
    size_t seen = len < max + MASK_PIECE ? len : max + MASK_PIECE;
    char *copy auto_free = xmalloc(seen + 1);
    memcpy(copy, text, seen);
    call_log_mask(p, copy, seen);
    size_t kept = seen < max ? seen : max;
    while (kept > 0 && kept < seen && ((unsigned char)copy[kept] & 0xc0) == 0x80)
        kept--; // not within a character
    *cut = *cut || kept < len;
    return json_lossy_string(copy, kept);
}

// ---- stdout or stderr

void call_output_fini(struct call_output *o)
{
    buf_fini(&o->first);
}

static size_t room(const struct call_output *o, const struct call_place *p)
{
    size_t max = (size_t)p->logs->opts.output_bytes + MASK_PIECE;
    return o->first.len < max ? max - o->first.len : 0;
}

bool call_output_is_full(const struct call_output *o, const struct call_place *p)
{
    return room(o, p) == 0;
}

void call_output_add(struct call_output *o, const struct call_place *p, const char *data,
                     size_t len, int64_t all)
{
    size_t fits = room(o, p);
    buf_add(&o->first, data, len < fits ? len : fits);
    o->bytes += all;
}

void call_output_tell(const struct call_output *o, const struct call_place *p, const char *name,
                      const char *count, json_t *line)
{
    size_t max = (size_t)p->logs->opts.output_bytes;
    bool cut = o->bytes > (int64_t)o->first.len;
    if (!o->bytes)
        return;
    json_object_set_new(line, count, json_integer(o->bytes));
    json_t *text = call_text(p, buf_str(&o->first), o->first.len, max, &cut);
    if (json_string_length(text))
        json_object_set(line, name, text);
    json_decref(text);
    if (cut)
        json_object_set_new(line, "cut", json_true());
}

// ---- a terminal

void call_screen_fini(struct call_screen *s)
{
    buf_fini(&s->pending);
    json_decref(s->events);
}

static size_t place_of(const json_t *events, size_t i, size_t end)
{
    const json_t *event = json_array_get(events, i);
    return event ? (size_t)json_integer_value(json_array_get(event, 1)) : end;
}

// Return the part of an event before `end` as text. New reference.
static json_t *event_text(const struct call_screen *s, size_t from, size_t to)
{
    return json_lossy_string(s->pending.data + from, to - from);
}

// Write what is pending up to `end`, and keep the rest.
static void write_until(struct call_screen *s, const struct call_place *p, int64_t n, size_t end)
{
    json_t *shown = json_array(), *rest = json_array();
    for (size_t i = 0; i < json_array_size(s->events); i++) {
        json_t *ms = json_array_get(json_array_get(s->events, i), 0);
        size_t from = place_of(s->events, i, end);
        size_t to = place_of(s->events, i + 1, s->pending.len);
        if (from < end)
            json_array_append_new(
                shown, json_pack("[O, o]", ms, event_text(s, from, to < end ? to : end)));
        if (to > end)
            json_array_append_new(
                rest, json_pack("[O, I]", ms, (json_int_t)(from < end ? 0 : from - end)));
    }
    json_decref(s->events);
    s->events = rest;
    s->kept += (int64_t)end;
    buf_consume(&s->pending, end);
    s->flushed_ms = clock_mono_ms();
    call_log_add(
        p, json_pack("{s:s, s:I, s:o}", "kind", "screen", "of", (json_int_t)n, "events", shown));
}

// A value that is to be masked may be complete only with the next bytes, and so may a character.
static size_t writable(const struct call_screen *s)
{
    size_t end = s->pending.len > MASK_PIECE ? s->pending.len - MASK_PIECE : 0;
    while (end > 0 && ((unsigned char)s->pending.data[end] & 0xc0) == 0x80)
        end--;
    return end;
}

void call_screen_add(struct call_screen *s, const struct call_place *p, int64_t n, const char *data,
                     size_t len, int64_t all)
{
    int64_t now = clock_mono_ms();
    int64_t at = now - s->start_ms;
    size_t count = json_array_size(s->events);
    s->bytes += all;
    if (s->kept + (int64_t)s->pending.len >= CALL_SCREEN_BYTES || !len)
        return;
    const json_t *last = json_array_get(s->events, count ? count - 1 : 0);
    if (!last || at - json_integer_value(json_array_get(last, 0)) > SCREEN_JOIN_MS) {
        if (!s->events)
            s->events = json_array();
        json_array_append_new(s->events,
                              json_pack("[I, I]", (json_int_t)at, (json_int_t)s->pending.len));
    }
    buf_add(&s->pending, data, len);
    if (s->pending.len < SCREEN_FLUSH_BYTES && now - s->flushed_ms < SCREEN_FLUSH_MS)
        return;
    call_log_mask(p, s->pending.data, s->pending.len);
    if (writable(s))
        write_until(s, p, n, writable(s));
}

void call_screen_end(struct call_screen *s, const struct call_place *p, int64_t n)
{
    if (!s->pending.len)
        return;
    call_log_mask(p, s->pending.data, s->pending.len);
    write_until(s, p, n, s->pending.len);
}
