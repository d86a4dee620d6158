// SPDX-License-Identifier: Apache-2.0
// The requests in the bytes of an HTTP/1 client: their heads, and where the next one begins.
#include "sandbox-backend/netd/gate/http_head.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define METHOD_MAX    32 // no method is longer
#define LENGTH_DIGITS 15
#define VERSION_BYTES 9 // " HTTP/1.1"

// A piece of the head.
struct text {
    const char *at;
    size_t len;
};

static bool is_word(struct text t, const char *word)
{
    return t.len == strlen(word) && strncasecmp(t.at, word, t.len) == 0;
}

static bool starts_with(struct text t, const char *start)
{
    return t.len >= strlen(start) && strncasecmp(t.at, start, strlen(start)) == 0;
}

static struct text skip(struct text t, size_t n)
{
    return (struct text){t.at + n, t.len - n};
}

static struct text before(struct text t, size_t n)
{
    return (struct text){t.at, n};
}

// Return the index of the first of these characters, or the length.
static size_t find_any(struct text t, const char *chars)
{
    for (size_t i = 0; i < t.len; i++)
        if (t.at[i] && strchr(chars, t.at[i]))
            return i;
    return t.len;
}

static bool is_token_char(unsigned char c)
{
    return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct text t)
{
    for (size_t i = 0; i < t.len; i++)
        if (!is_token_char((unsigned char)t.at[i]))
            return false;
    return t.len > 0;
}

// ---- is it HTTP/1 at all?

// Set the first line without its end. False: it has no end yet.
static bool find_line(struct text t, struct text *line)
{
    const char *end = t.len ? memchr(t.at, '\n', t.len) : NULL;
    *line = before(t, end ? (size_t)(end - t.at) : t.len);
    return end != NULL;
}

static bool has_version(struct text line)
{
    for (size_t i = 0; i < line.len; i++)
        if (starts_with(skip(line, i), "HTTP/1"))
            return true;
    return false;
}

// Recognise HTTP generously, so that no request that a lenient server would answer passes as
// another protocol.
static enum http_head_state recognise(struct text t)
{
    struct text line;
    size_t method = 0;
    if (t.len && isspace((unsigned char)t.at[0]))
        return HTTP_HEAD_BAD;
    while (method < t.len && is_token_char((unsigned char)t.at[method]))
        method++;
    if (method > METHOD_MAX)
        return HTTP_HEAD_OTHER;
    if (method == t.len)
        return HTTP_HEAD_MORE;
    bool has_end = find_line(t, &line);
    if (method == 0 || !isspace((unsigned char)t.at[method]) || memchr(line.at, 0, line.len))
        return HTTP_HEAD_OTHER;
    if (!has_end)
        return HTTP_HEAD_MORE;
    return has_version(line) ? HTTP_HEAD_DONE : HTTP_HEAD_OTHER;
}

// ---- its lines

// "host", "host:80".
static bool take_authority(struct server_name *name, struct text t)
{
    size_t host = find_any(t, ":");
    for (size_t i = host + 1; i < t.len; i++)
        if (!isdigit((unsigned char)t.at[i]))
            return false;
    return server_name_set(name, t.at, host);
}

static const char *take_target(struct http_head *h, struct text target, struct server_name *named)
{
    if (h->is_connect)
        return take_authority(named, target) ? NULL : "CONNECT without a valid host";
    if (target.at[0] == '/' || is_word(target, "*"))
        return NULL;
    if (!starts_with(target, "http://"))
        return "a target that is neither a path nor an http URL";
    target = skip(target, strlen("http://"));
    return take_authority(named, before(target, find_any(target, "/?#")))
               ? NULL
               : "a target with an invalid host";
}

static const char *take_request_line(struct http_head *h, struct text line,
                                     struct server_name *named)
{
    size_t method = find_any(line, " ");
    if (line.len < method + 2 + VERSION_BYTES || !is_token(before(line, method)))
        return "a malformed request line";
    struct text target = before(skip(line, method + 1), line.len - method - 1 - VERSION_BYTES);
    struct text version = skip(line, line.len - VERSION_BYTES);
    if (memcmp(version.at, " HTTP/1.1", VERSION_BYTES) != 0 &&
        memcmp(version.at, " HTTP/1.0", VERSION_BYTES) != 0)
        return "a malformed request line";
    if (find_any(target, " \t") < target.len)
        return "a space in the target";
    h->is_connect = is_word(before(line, method), "CONNECT");
    return take_target(h, target, named);
}

struct fields {
    bool has_host, has_length, has_coding;
};

static const char *take_length(struct http_head *h, struct text value)
{
    if (value.len == 0 || value.len > LENGTH_DIGITS)
        return "an invalid Content-Length";
    for (size_t i = 0; i < value.len; i++) {
        if (!isdigit((unsigned char)value.at[i]))
            return "an invalid Content-Length";
        h->body_len = h->body_len * 10 + (uint64_t)(value.at[i] - '0');
    }
    return NULL;
}

static const char *take_field(struct http_head *h, struct fields *f, struct text name,
                              struct text value)
{
    if (is_word(name, "Host")) {
        if (f->has_host)
            return "a second Host";
        f->has_host = true;
        return take_authority(&h->host, value) ? NULL : "an invalid Host";
    }
    if (is_word(name, "Content-Length")) {
        if (f->has_length)
            return "a second Content-Length";
        f->has_length = true;
        return take_length(h, value);
    }
    if (is_word(name, "Transfer-Encoding")) {
        if (f->has_coding || !is_word(value, "chunked"))
            return "a transfer coding other than chunked";
        f->has_coding = h->is_chunked = true;
    }
    h->has_upgrade |= is_word(name, "Upgrade");
    return NULL;
}

static struct text trim(struct text t)
{
    while (t.len && (t.at[0] == ' ' || t.at[0] == '\t'))
        t = skip(t, 1);
    while (t.len && (t.at[t.len - 1] == ' ' || t.at[t.len - 1] == '\t'))
        t.len--;
    return t;
}

static const char *take_header_line(struct http_head *h, struct fields *f, struct text line)
{
    size_t colon = find_any(line, ":");
    struct text name = before(line, colon);
    if (colon == line.len || !is_token(name))
        return "a malformed header line";
    return take_field(h, f, name, trim(skip(line, colon + 1)));
}

// Cut off a line with its CRLF. It may hold no control character but the tab.
static const char *cut_line(struct text *rest, struct text *line)
{
    bool has_end = find_line(*rest, line);
    if (!has_end || line->len == 0 || line->at[line->len - 1] != '\r')
        return "a line that does not end in CRLF";
    *rest = skip(*rest, line->len + 1);
    line->len--;
    for (size_t i = 0; i < line->len; i++)
        if (iscntrl((unsigned char)line->at[i]) && line->at[i] != '\t')
            return "a control character in a head";
    return NULL;
}

static const char *check(struct http_head *h, const struct fields *f, struct text first,
                         const struct server_name *named)
{
    bool is_old = first.at[first.len - 1] == '0';
    if (f->has_coding && (f->has_length || is_old))
        return "more than one body length";
    if (h->is_connect && (f->has_coding || h->body_len > 0))
        return "CONNECT with a body";
    if (named->text[0] && f->has_host && strcmp(named->text, h->host.text) != 0)
        return "a target with another host than Host";
    if (h->is_connect)
        h->host = *named;
    if (named->text[0] && !f->has_host && !is_old)
        return "a target with a host, but no Host header";
    return NULL;
}

static const char *take_lines(struct http_head *h, struct text rest)
{
    struct fields f = {0};
    struct server_name named = {""};
    struct text first, line;
    const char *why = cut_line(&rest, &first);
    if (!why)
        why = take_request_line(h, first, &named);
    while (!why && !(why = cut_line(&rest, &line)) && line.len > 0)
        why = take_header_line(h, &f, line);
    return why ? why : check(h, &f, first, &named);
}

// ---- the whole

// Return the length through the first empty line, with any line end, or 0.
static size_t find_end(struct text t)
{
    for (size_t i = 0; i + 1 < t.len; i++) {
        if (t.at[i] != '\n')
            continue;
        if (t.at[i + 1] == '\n')
            return i + 2;
        if (i + 2 < t.len && t.at[i + 1] == '\r' && t.at[i + 2] == '\n')
            return i + 3;
    }
    return 0;
}

enum http_head_state http_head_parse(struct http_head *h, const uint8_t *data, size_t len)
{
    struct text all = {(const char *)data, len};
    *h = (struct http_head){.why = "white space in place of a request"};
    enum http_head_state state = recognise(all);
    size_t end = find_end(all);
    if ((state == HTTP_HEAD_MORE || state == HTTP_HEAD_DONE) && end == 0) {
        h->why = "a head of more than 16 KiB";
        return len >= HTTP_HEAD_MAX ? HTTP_HEAD_BAD : HTTP_HEAD_MORE;
    }
    if (state != HTTP_HEAD_DONE)
        return state;
    h->why = end > HTTP_HEAD_MAX ? "a head of more than 16 KiB" : take_lines(h, before(all, end));
    h->len = end;
    return h->why ? HTTP_HEAD_BAD : HTTP_HEAD_DONE;
}

// ---- each request of a client

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
        head->why = "something other than HTTP/1 after a request";
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
    head->why = "a chunk of a wrong length, or trailers";
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
    head->why = "an invalid chunk size, or a chunk extension";
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
