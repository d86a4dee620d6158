// SPDX-License-Identifier: Apache-2.0
// The fields behind the last chunk of a body, as they are received and sent.
#include "sandbox-backend/net/http_trailers.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

void http_trailers_clear(struct http_trailers *t)
{
    buf_fini(&t->text); // seldom needed
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

// The parser's rules for a trailer are laxer than the scan of a head.
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
    return at == t->text.data + t->text.len; // else a NUL was among the bytes
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
