// SPDX-License-Identifier: Apache-2.0
// The Connect protocol: envelopes, errors, end of stream.
#include "sandbox-backend/connect/connect.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define TIMEOUT_DIGITS_MAX 10

static void add_head(struct buf *out, uint8_t flags, size_t len)
{
    uint32_t n = (uint32_t)len;
    const char head[CONNECT_ENVELOPE_HEAD] = {(char)flags, (char)(n >> 24), (char)(n >> 16),
                                              (char)(n >> 8), (char)n};
    buf_add(out, head, sizeof head);
}

void connect_envelope(struct buf *out, uint8_t flags, const void *payload, size_t len)
{
    add_head(out, flags, len);
    buf_add(out, payload, len);
}

void connect_envelope_close(struct buf *out, size_t at)
{
    size_t len = out->len - at - CONNECT_ENVELOPE_HEAD;
    for (size_t i = 0; i < 4; i++)
        out->data[at + 1 + i] = (char)(len >> (24 - 8 * i));
}

static void add_json(struct buf *out, uint8_t flags, const json_t *message)
{
    struct buf payload auto_buf = BUF_INIT;
    json_to_buf(&payload, message);
    connect_envelope(out, flags, buf_str(&payload), payload.len);
}

void connect_envelope_json(struct buf *out, const json_t *message)
{
    add_json(out, 0, message);
}

void connect_envelope_end(struct buf *out, const struct err *e)
{
    json_t *end = json_object();
    if (e && err_is(e))
        json_object_set_new(end, "error", connect_error_json(e));
    add_json(out, CONNECT_FLAG_END, end);
    json_decref(end);
}

json_t *connect_error_json(const struct err *e)
{
    // A message may quote a peer's bytes, cut in the middle of a character.
    return json_pack("{s:s, s:o}", "code", err_connect_name(e->code), "message",
                     json_lossy_string(e->msg, strlen(e->msg)));
}

int connect_error_parse(const json_t *object, struct err *e)
{
    const json_t *inner = json_object_get(object, "error");
    const json_t *error = json_is_object(inner) ? inner : object;
    const char *code = json_string_value(json_object_get(error, "code"));
    if (!code && error != inner)
        return 0;
    const char *message = json_string_value(json_object_get(error, "message"));
    enum err_code number = code ? err_from_connect_name(code) : ERR_UNKNOWN;
    return err_set(e, number, "%s", message && *message ? message : code ? code : "unknown error");
}

void connect_reader_init(struct connect_reader *r, size_t max)
{
    *r = (struct connect_reader){.max = max};
}

void connect_reader_fini(struct connect_reader *r)
{
    buf_fini(&r->pending);
}

static size_t payload_len(const char *head)
{
    const unsigned char *p = (const unsigned char *)head;
    return (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
}

static int check_head(const char *head, size_t max, struct err *e)
{
    uint8_t flags = (uint8_t)head[0];
    if (flags & ~(CONNECT_FLAG_COMPRESSED | CONNECT_FLAG_END))
        return err_set(e, ERR_INVALID, "an envelope has unknown flags 0x%02x", flags);
    if (payload_len(head) > max)
        return err_set(e, ERR_TOO_LARGE, "a message of %zu bytes is longer than %zu",
                       payload_len(head), max);
    return 0;
}

int connect_frame_read(const char *data, size_t len, size_t max, struct connect_frame *out,
                       struct err *e)
{
    if (len < CONNECT_ENVELOPE_HEAD)
        return 0;
    if (check_head(data, max, e) < 0)
        return -1;
    *out = (struct connect_frame){.flags = (uint8_t)data[0],
                                  .payload = data + CONNECT_ENVELOPE_HEAD,
                                  .len = payload_len(data)};
    return len - CONNECT_ENVELOPE_HEAD >= out->len;
}

static int check_plain(const struct connect_reader *r, const char *head, struct err *e)
{
    if (check_head(head, r->max, e) < 0)
        return -1;
    if ((uint8_t)head[0] & CONNECT_FLAG_COMPRESSED)
        return err_set(e, ERR_UNIMPLEMENTED, "compressed messages are not supported");
    return 0;
}

// Append to `pending` the missing bytes of its envelope's head, or else of its payload. Return the
// number of bytes taken.
static size_t complete(struct connect_reader *r, const char *data, size_t len, struct err *e)
{
    size_t want = CONNECT_ENVELOPE_HEAD;
    if (r->pending.len >= CONNECT_ENVELOPE_HEAD)
        want += payload_len(r->pending.data);
    size_t take = want - r->pending.len;
    if (take > len)
        take = len;
    if (!buf_try_add(&r->pending, data, take, CONNECT_ENVELOPE_HEAD + r->max))
        err_set(e, ERR_LIMIT, "no memory for a message of %zu bytes", want);
    return take;
}

static bool is_whole(const char *data, size_t len)
{
    return len >= CONNECT_ENVELOPE_HEAD && len - CONNECT_ENVELOPE_HEAD >= payload_len(data);
}

static int deliver(struct connect_reader *r, const char *envelope, connect_envelope_cb cb,
                   void *ctx, struct err *e)
{
    uint8_t flags = (uint8_t)envelope[0];
    if (flags & CONNECT_FLAG_END)
        r->ended = true;
    if (cb(flags, envelope + CONNECT_ENVELOPE_HEAD, payload_len(envelope), ctx) != 0)
        return err_set(e, ERR_CANCELED, "the receiver of the stream stopped it");
    return 0;
}

// The callback may end the reader, so the payload's memory is moved out first.
static int deliver_pending(struct connect_reader *r, connect_envelope_cb cb, void *ctx,
                           struct err *e)
{
    struct buf whole = r->pending;
    r->pending = BUF_INIT;
    int result = deliver(r, whole.data, cb, ctx, e);
    buf_fini(&whole);
    return result;
}

int connect_reader_feed(struct connect_reader *r, const char *data, size_t len,
                        connect_envelope_cb cb, void *ctx, struct err *e)
{
    while (len > 0) {
        if (r->ended)
            return err_set(e, ERR_INVALID, "bytes after the end of the stream");
        size_t taken;
        if (r->pending.len == 0 && len >= CONNECT_ENVELOPE_HEAD && is_whole(data, len)) {
            taken = CONNECT_ENVELOPE_HEAD + payload_len(data);
            if (check_plain(r, data, e) || deliver(r, data, cb, ctx, e))
                return -1;
        } else {
            struct err failed = ERR_INIT;
            taken = complete(r, data, len, &failed);
            if (!err_is(&failed) && r->pending.len == CONNECT_ENVELOPE_HEAD)
                check_plain(r, r->pending.data, &failed);
            if (err_is(&failed))
                return err_set(e, failed.code, "%s", failed.msg);
            if (is_whole(r->pending.data, r->pending.len) && deliver_pending(r, cb, ctx, e))
                return -1;
        }
        data += taken;
        len -= taken;
    }
    return 0;
}

int connect_timeout_parse(const char *header, int64_t *ms, struct err *e)
{
    *ms = 0;
    if (!header)
        return 0;
    size_t len = strlen(header);
    if (len == 0 || len > TIMEOUT_DIGITS_MAX || strspn(header, "0123456789") != len ||
        !str_to_int(header, 0, INT64_MAX, ms))
        return err_set(e, ERR_INVALID, "Connect-Timeout-Ms must be at most %d digits",
                       TIMEOUT_DIGITS_MAX);
    return 0;
}
