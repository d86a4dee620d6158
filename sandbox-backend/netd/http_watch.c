// SPDX-License-Identifier: Apache-2.0
// Where each request begins in what an HTTP/1 client sends.
#include "sandbox-backend/netd/http_watch.h"

#include <ctype.h>
#include <string.h>

#define SIZE_DIGITS 15

static void start_body(struct http_watch *w, const struct http_head *head)
{
    w->left = head->body_len;
    if (head->is_chunked)
        w->state = HTTP_WATCH_SIZE;
    else if (w->left > 0)
        w->state = HTTP_WATCH_BODY;
}

static enum http_watch_step on_head(struct http_watch *w, struct http_head *head,
                                    const uint8_t *data, size_t len, size_t *used)
{
    switch (http_head_parse(head, data, len)) {
    case HTTP_HEAD_MORE:
        return HTTP_WATCH_MORE;
    case HTTP_HEAD_DONE:
        break;
    case HTTP_HEAD_OTHER:
        head->why = "something else than HTTP/1 behind a request";
        return HTTP_WATCH_BAD;
    case HTTP_HEAD_BAD:
        return HTTP_WATCH_BAD;
    }
    *used = head->len;
    start_body(w, head);
    return HTTP_WATCH_ASK;
}

static enum http_watch_step on_counted(struct http_watch *w, size_t len, size_t *used)
{
    *used = len < w->left ? len : (size_t)w->left;
    w->left -= *used;
    if (w->left == 0)
        w->state = w->state == HTTP_WATCH_BODY ? HTTP_WATCH_HEAD : HTTP_WATCH_CHUNK_END;
    return *used > 0 ? HTTP_WATCH_PASS : HTTP_WATCH_MORE;
}

static enum http_watch_step on_end(struct http_watch *w, struct http_head *head,
                                   const uint8_t *data, size_t len, size_t *used)
{
    head->why = "a chunk of another length, or trailers";
    if ((len > 0 && data[0] != '\r') || (len > 1 && data[1] != '\n'))
        return HTTP_WATCH_BAD;
    if (len < 2)
        return HTTP_WATCH_MORE;
    *used = 2;
    w->state = w->state == HTTP_WATCH_LAST ? HTTP_WATCH_HEAD : HTTP_WATCH_SIZE;
    return HTTP_WATCH_PASS;
}

static uint64_t digit(uint8_t c)
{
    return isdigit(c) ? (uint64_t)(c - '0') : (uint64_t)(tolower(c) - 'a' + 10);
}

static enum http_watch_step on_size(struct http_watch *w, struct http_head *head,
                                    const uint8_t *data, size_t len, size_t *used)
{
    size_t digits = 0;
    uint64_t size = 0;
    head->why = "a chunk size that is none, or with an extension";
    for (; digits < len && isxdigit(data[digits]); digits++) {
        if (digits == SIZE_DIGITS)
            return HTTP_WATCH_BAD;
        size = size << 4 | digit(data[digits]);
    }
    size_t rest = len - digits;
    if (rest == 0)
        return HTTP_WATCH_MORE;
    if (digits == 0 || data[digits] != '\r' || (rest > 1 && data[digits + 1] != '\n'))
        return HTTP_WATCH_BAD;
    if (rest < 2)
        return HTTP_WATCH_MORE;
    *used = digits + 2;
    w->left = size;
    w->state = size > 0 ? HTTP_WATCH_CHUNK : HTTP_WATCH_LAST;
    return HTTP_WATCH_PASS;
}

enum http_watch_step http_watch_next(struct http_watch *w, struct http_head *head,
                                     const uint8_t *data, size_t len, size_t *used)
{
    *used = 0;
    switch (w->state) {
    case HTTP_WATCH_BODY:
    case HTTP_WATCH_CHUNK:
        return on_counted(w, len, used);
    case HTTP_WATCH_CHUNK_END:
    case HTTP_WATCH_LAST:
        return on_end(w, head, data, len, used);
    case HTTP_WATCH_SIZE:
        return on_size(w, head, data, len, used);
    case HTTP_WATCH_HEAD:
        break;
    }
    return on_head(w, head, data, len, used);
}
