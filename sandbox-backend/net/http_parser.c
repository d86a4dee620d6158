// SPDX-License-Identifier: Apache-2.0
// Parses HTTP/1.1 messages in three steps: a strict scan of the head, llhttp, and checks of the
// head's meaning.
//
// llhttp tolerates forms that two readers may understand differently: a bare LF, folded lines,
// blanks in names. So each head goes through scan() first, which knows only where lines end: CR LF
// everywhere, no NUL, no folding, at most head_max bytes. scan() also finds the last byte of the
// head, so that llhttp gets exactly the head, and must agree on its end. check_head() then refuses
// heads that are well formed but ambiguous (RFC 9112, sections 3.2, 6.1, 6.3): two lengths,
// repeated lengths or hosts, transfer codings other than chunked.
#include "sandbox-backend/net/http_parser.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/types.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define EXTRA_MAX_BYTES LIMIT_HTTP_HEAD_BYTES
#define TEXT_KEEP_BYTES 2048 // kept for the next head after a longer one

static enum http_event bad(struct http_parser *p, int status, const char *why)
{
    if (!p->bad) {
        p->bad_status = status;
        p->bad = why;
    }
    p->failed = true;
    return HTTP_EV_BAD;
}

// ---- llhttp's callbacks: they only record

static struct http_parser *self(llhttp_t *llhttp)
{
    return llhttp->data;
}

static int on_target(llhttp_t *llhttp, const char *at, size_t len)
{
    buf_add(&self(llhttp)->text, at, len); // the scan bounds it, as it bounds names and values
    return 0;
}

static int on_target_end(llhttp_t *llhttp)
{
    buf_addc(&self(llhttp)->text, '\0');
    return 0;
}

static int on_extra(struct http_parser *p, size_t len)
{
    p->extra_len += len;
    if (p->extra_len <= EXTRA_MAX_BYTES)
        return 0;
    bad(p, 431, "the trailers are too long");
    return HPE_USER;
}

static int on_trailer(struct http_parser *p, const char *at, size_t len)
{
    int rc = on_extra(p, len);
    if (rc == 0)
        http_trailers_add(&p->trailers, at, len);
    return rc;
}

static int on_trailer_part(struct http_parser *p)
{
    http_trailers_end_part(&p->trailers);
    return on_extra(p, 1); // an empty name and value also need room
}

// Most heads have few headers, and many connections are kept.
static void grow_headers(struct http_parser *p)
{
    p->room = p->room ? p->room * 2 : 12;
    if (p->room > HTTP_HEADERS_MAX)
        p->room = HTTP_HEADERS_MAX;
    p->spans = xrealloc(p->spans, p->room * sizeof *p->spans);
    p->headers = xrealloc(p->headers, p->room * sizeof *p->headers);
}

static int begin_header(struct http_parser *p)
{
    if (p->count == HTTP_HEADERS_MAX) {
        bad(p, 431, "too many headers");
        return HPE_USER;
    }
    if (p->count == p->room)
        grow_headers(p);
    p->in_name = true;
    p->spans[p->count].name = p->text.len;
    return 0;
}

static int on_name(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = self(llhttp);
    if (!p->in_head)
        return on_trailer(p, at, len);
    if (!p->in_name && begin_header(p) != 0)
        return HPE_USER;
    buf_add(&p->text, at, len);
    return 0;
}

static int on_name_end(llhttp_t *llhttp)
{
    struct http_parser *p = self(llhttp);
    if (!p->in_head)
        return on_trailer_part(p);
    if (!p->in_name && begin_header(p) != 0) // an empty name, which check_head refuses
        return HPE_USER;
    buf_addc(&p->text, '\0');
    p->spans[p->count].value = p->text.len;
    return 0;
}

static int on_value(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = self(llhttp);
    if (!p->in_head)
        return on_trailer(p, at, len);
    buf_add(&p->text, at, len);
    return 0;
}

static int on_value_end(llhttp_t *llhttp)
{
    struct http_parser *p = self(llhttp);
    if (!p->in_head)
        return on_trailer_part(p);
    buf_addc(&p->text, '\0');
    p->count++;
    p->in_name = false;
    return 0;
}

static int on_chunk_extension(llhttp_t *llhttp, const char *at, size_t len)
{
    (void)at;
    return on_extra(self(llhttp), len);
}

static int on_head(llhttp_t *llhttp)
{
    struct http_parser *p = self(llhttp);
    p->event = HTTP_EV_HEAD;
    p->is_offer = llhttp->upgrade;
    llhttp->upgrade = 0; // treat it as an ordinary message: a caller that accepts the offer stops
                         // parsing
    int status = llhttp_get_type(llhttp) == HTTP_RESPONSE ? llhttp_get_status_code(llhttp) : 0;
    // llhttp would wait for the body whose length a 304 only mentions (RFC 9112, 6.3).
    p->no_body = p->no_body || status == 204 || status == 304;
    if (p->no_body)
        llhttp->flags |= F_SKIPBODY;
    return HPE_PAUSED;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    struct http_parser *p = self(llhttp);
    if (len == 0) // a body is awaited: llhttp shows the empty rest of what it was given
        return 0;
    p->event = HTTP_EV_BODY;
    p->body = at;
    p->body_len = len;
    return HPE_PAUSED;
}

static int on_end(llhttp_t *llhttp)
{
    struct http_parser *p = self(llhttp);
    if (p->trailers.parts && !http_trailers_resolve(&p->trailers)) {
        bad(p, 400, "the trailers are malformed");
        return HPE_USER;
    }
    p->event = HTTP_EV_END;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_url = on_target,
    .on_url_complete = on_target_end,
    .on_header_field = on_name,
    .on_header_field_complete = on_name_end,
    .on_header_value = on_value,
    .on_header_value_complete = on_value_end,
    .on_headers_complete = on_head,
    .on_chunk_extension_name = on_chunk_extension,
    .on_chunk_extension_value = on_chunk_extension,
    .on_body = on_body,
    .on_message_complete = on_end,
};

void http_parser_init(struct http_parser *p, llhttp_type_t type)
{
    *p = (struct http_parser){.in_head = true, .head_max = LIMIT_HTTP_HEAD_BYTES};
    llhttp_init(&p->llhttp, type, &SETTINGS);
    p->llhttp.data = p;
    http_parser_next(p);
}

void http_parser_fini(struct http_parser *p)
{
    buf_fini(&p->text);
    http_trailers_clear(&p->trailers);
    free(p->spans);
    free(p->headers);
}

void http_parser_next(struct http_parser *p)
{
    if (p->failed)
        return;
    llhttp_reset(&p->llhttp);
    if (p->text.cap > TEXT_KEEP_BYTES)
        buf_fini(&p->text);
    else
        buf_clear(&p->text);
    http_trailers_clear(&p->trailers);
    p->count = 0;
    p->in_name = false;
    p->in_head = true;
    p->started = false;
    p->no_body = false;
    p->previous = 0;
    p->line_len = p->head_len = p->extra_len = 0;
}

bool http_parser_is_fresh(const struct http_parser *p)
{
    return p->in_head && p->head_len == 0;
}

// ---- the head

// Check one more byte of a head. Return 1 when it is the last one, -1 when it is not allowed.
static int scan_byte(struct http_parser *p, char c)
{
    char previous = p->previous;
    p->previous = c;
    if (previous == '\r' && c != '\n')
        return -1;
    if (c == '\n') {
        if (previous != '\r')
            return -1;
        if (p->line_len == 0)
            return p->started; // empty lines before the first one are skipped (RFC 9112, 2.2)
        p->line_len = 0;
        return 0;
    }
    if (c == '\r')
        return 0;
    bool folded = p->started && p->line_len == 0 && (c == ' ' || c == '\t');
    if (c == '\0' || folded)
        return -1;
    p->started = true;
    p->line_len++;
    return 0;
}

// Return the number of bytes inside a line that can neither end it nor be wrong, as most are.
static size_t skip_ordinary(struct http_parser *p, const char *data, size_t len)
{
    size_t n = 0;
    if (p->line_len == 0 || p->previous == '\r')
        return 0;
    if (len > p->head_max - p->head_len)
        len = p->head_max - p->head_len;
    while (n < len && (unsigned char)data[n] > '\r')
        n++;
    if (n)
        p->previous = data[n - 1];
    p->line_len += n;
    p->head_len += n;
    return n;
}

// Return how many of the bytes belong to the head, or -1 with bad() set. *whole: the head's end is
// among them.
static ssize_t scan(struct http_parser *p, const char *data, size_t len, bool *whole)
{
    *whole = false;
    for (size_t i = 0;;) {
        i += skip_ordinary(p, data + i, len - i);
        if (i == len)
            return (ssize_t)len;
        int found = scan_byte(p, data[i++]);
        if (found < 0) {
            bad(p, 400, "the head is malformed");
            return -1;
        }
        if (++p->head_len > p->head_max) {
            bad(p, 431, "the head is too long");
            return -1;
        }
        if (found) {
            *whole = true;
            return (ssize_t)i;
        }
    }
}

static size_t trimmed_len(const char *value)
{
    size_t len = strlen(value);
    while (len && (value[len - 1] == ' ' || value[len - 1] == '\t'))
        len--;
    return len;
}

static void resolve_headers(struct http_parser *p)
{
    p->target = p->text.data;
    for (size_t i = 0; i < p->count; i++) {
        char *value = p->text.data + p->spans[i].value;
        value[trimmed_len(value)] = '\0';
        p->headers[i] = (struct http_header){p->text.data + p->spans[i].name, value};
    }
}

static size_t occurrences(const struct http_parser *p, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < p->count; i++)
        n += http_name_is(p->headers[i].name, name);
    return n;
}

static enum http_event check_length(struct http_parser *p)
{
    const char *coding = http_header_get(p->headers, p->count, "Transfer-Encoding");
    const char *length = http_header_get(p->headers, p->count, "Content-Length");
    p->length = llhttp_get_type(&p->llhttp) == HTTP_RESPONSE ? -2 : 0;
    if (occurrences(p, "Transfer-Encoding") + occurrences(p, "Content-Length") > 1)
        return bad(p, 400, "the length of the body is given more than once");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return bad(p, 501, "chunked is the only supported transfer coding");
    if (coding && p->llhttp.http_minor == 0)
        return bad(p, 400, "HTTP/1.0 has no transfer codings");
    if (coding)
        p->length = -1;
    if (length && (strspn(length, "0123456789") != strlen(length) ||
                   !str_to_int(length, 0, INT64_MAX, &p->length)))
        return bad(p, 400, "the Content-Length is not a number");
    return HTTP_EV_HEAD;
}

static enum http_event check_head(struct http_parser *p)
{
    if (p->llhttp.http_major != 1 || p->llhttp.http_minor > 1)
        return bad(p, 505, "only HTTP/1.1 and HTTP/1.0 are supported");
    resolve_headers(p);
    for (size_t i = 0; i < p->count; i++)
        if (!http_is_token(p->headers[i].name))
            return bad(p, 400, "a header has an invalid name");
    if (llhttp_get_type(&p->llhttp) == HTTP_REQUEST) {
        size_t hosts = occurrences(p, "Host");
        if (hosts > 1 || (hosts == 0 && p->llhttp.http_minor == 1))
            return bad(p, 400, "a request has exactly one Host header");
        for (const char *c = p->target; *c; c++)
            if ((unsigned char)*c <= ' ' || *c == 0x7F)
                return bad(p, 400, "the target of the request is malformed");
    }
    return check_length(p);
}

// ---- events

static const char *reason(const struct http_parser *p)
{
    const char *why = llhttp_get_error_reason(&p->llhttp);
    return why && *why ? why : "malformed HTTP";
}

// Feed llhttp and return the event that it reached.
static enum http_event run(struct http_parser *p, const char *data, size_t len, size_t *taken)
{
    p->event = HTTP_EV_MORE;
    llhttp_errno_t result = llhttp_execute(&p->llhttp, data, len);
    *taken = len;
    if (result == HPE_OK)
        return HTTP_EV_MORE;
    if (result != HPE_PAUSED)
        return bad(p, result == HPE_INVALID_VERSION || result == HPE_PAUSED_H2_UPGRADE ? 505 : 400,
                   reason(p));
    *taken = (size_t)(llhttp_get_error_pos(&p->llhttp) - data);
    llhttp_resume(&p->llhttp);
    return p->event;
}

static enum http_event step_head(struct http_parser *p, const char **data, size_t *len)
{
    bool whole;
    ssize_t n = scan(p, *data, *len, &whole);
    if (n < 0)
        return HTTP_EV_BAD;
    size_t taken;
    enum http_event event = run(p, *data, (size_t)n, &taken);
    *data += n;
    *len -= (size_t)n;
    if (event == HTTP_EV_BAD || (!whole && event == HTTP_EV_MORE))
        return event;
    if (!whole || event != HTTP_EV_HEAD)
        return bad(p, 400, "the head is malformed");
    p->in_head = false;
    event = check_head(p);
    p->keep_alive = event == HTTP_EV_HEAD && llhttp_should_keep_alive(&p->llhttp);
    return event;
}

enum http_event http_parser_step(struct http_parser *p, const char **data, size_t *len)
{
    if (p->failed)
        return HTTP_EV_BAD;
    if (p->in_head)
        return *len ? step_head(p, data, len) : HTTP_EV_MORE;
    // There may be an event without bytes: the end of a body whose last byte was delivered.
    size_t taken;
    enum http_event event = run(p, *data, *len, &taken);
    *data += taken;
    *len -= taken;
    return event;
}

enum http_event http_parser_eof(struct http_parser *p)
{
    if (p->failed)
        return HTTP_EV_BAD;
    if (http_parser_is_fresh(p))
        return HTTP_EV_MORE;
    p->event = HTTP_EV_MORE;
    if (llhttp_finish(&p->llhttp) == HPE_PAUSED && p->event == HTTP_EV_END) {
        llhttp_resume(&p->llhttp);
        return HTTP_EV_END;
    }
    if (p->event == HTTP_EV_END)
        return HTTP_EV_END;
    return bad(p, 400, "the message was cut short");
}
