// SPDX-License-Identifier: Apache-2.0
// The body of an HTTP message: its chunks and trailers.
#include "sandbox-backend/net/http_body.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

void http_trailers_clear(struct http_trailers *t)
{
    buf_fini(&t->text); // rarely needed
    free(t->list);
    *t = (struct http_trailers){.text = BUF_INIT};
}

void http_trailers_add(struct http_trailers *t, const char *at, size_t len)
{
    buf_add(&t->text, at, len);
}

void http_trailers_end_part(struct http_trailers *t)
{
    buf_addc(&t->text, '\0');
    t->parts++;
}

static size_t trimmed_len(const char *value)
{
    size_t len = strlen(value);
    while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    return len;
}

// The parser's rules for trailers are laxer than the scan of a head.
static bool is_one_line(const char *value)
{
    return !value[strcspn(value, "\r\n")];
}

bool http_trailers_resolve(struct http_trailers *t)
{
    size_t count = t->parts / 2;
    if (t->parts % 2 || count > HTTP_HEADERS_MAX)
        return false;
    t->list = count ? xmalloc(count * sizeof *t->list) : NULL;
    char *at = t->text.data;
    for (t->count = 0; t->count < count; t->count++) {
        const char *name = at;
        char *value = at + strlen(name) + 1;
        at = value + strlen(value) + 1;
        if (!http_is_token(name) || !is_one_line(value) || at > t->text.data + t->text.len)
            return false;
        value[trimmed_len(value)] = '\0';
        t->list[t->count] = (struct http_header){name, value};
    }
    return at == t->text.data + t->text.len; // otherwise a NUL was among the bytes
}

static bool may_be_trailer(const char *name)
{
    static const char *const NOT[] = {
        "Content-Length", "Content-Type",  "Content-Encoding", "Content-Range", "Host",
        "Authorization",  "Cache-Control", "Expect",           "Set-Cookie",    "Cookie"};
    for (size_t i = 0; i < ARRAY_LEN(NOT); i++)
        if (http_name_is(name, NOT[i]))
            return false;
    return !http_header_is_hop_by_hop(name) && !http_name_is(name, "Trailer");
}

void http_trailers_append(struct buf *out, const char *name, const char *value)
{
    if (may_be_trailer(name) && http_is_token(name) && is_one_line(value))
        buf_printf(out, "%s: %s\r\n", name, value);
}

// ---- sending

#define SEND_AT_ONCE_BYTES 4096  // a piece of this size is sent from the caller's memory
#define GATHERED_MAX_BYTES 16384 // gathered pieces are sent when they reach this size

static void add_chunk_size(struct buf *out, size_t len)
{
    char line[2 * sizeof len + 2];
    size_t at = sizeof line;
    line[--at] = '\n';
    line[--at] = '\r';
    do {
        line[--at] = "0123456789abcdef"[len & 0xF];
        len >>= 4;
    } while (len);
    buf_add(out, line + at, sizeof line - at);
}

int http_sender_write(struct http_sender *s, struct stream_out *out, const void *data, size_t len)
{
    struct buf *queued = stream_out_buf(out);
    const char *tail = s->chunked ? "\r\n" : "";
    if (s->chunked)
        add_chunk_size(queued, len);
    if (len >= SEND_AT_ONCE_BYTES)
        return stream_out_send(out, data, len, tail);
    buf_add(queued, data, len);
    buf_adds(queued, tail);
    return queued->len >= GATHERED_MAX_BYTES ? stream_out_flush(out) : 1;
}

void http_sender_end(struct http_sender *s, struct stream_out *out)
{
    struct buf *queued = stream_out_buf(out);
    if (!s->chunked)
        return;
    buf_adds(queued, "0\r\n");
    buf_add(queued, s->trailers.data, s->trailers.len);
    buf_adds(queued, "\r\n");
}
