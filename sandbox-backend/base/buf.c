// SPDX-License-Identifier: Apache-2.0
// A growable sequence of bytes.
#include "sandbox-backend/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = BUF_INIT;
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

static size_t grown(const struct buf *b, size_t more)
{
    size_t want = b->len + more + 1;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < want)
        cap *= 2;
    return cap;
}

static void reserve(struct buf *b, size_t more)
{
    if (b->cap - b->len > more) // a NUL follows
        return;
    b->cap = grown(b, more);
    b->data = xrealloc(b->data, b->cap);
}

static void append(struct buf *b, const void *data, size_t len)
{
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    reserve(b, len);
    append(b, data, len);
}

bool buf_try_add(struct buf *b, const void *data, size_t len, size_t max)
{
    if (len > max || b->len > max - len)
        return false;
    size_t cap = grown(b, len);
    if (cap != b->cap) {
        char *data_new = try_realloc(b->data, cap);
        if (!data_new)
            return false;
        b->data = data_new;
        b->cap = cap;
    }
    append(b, data, len);
    return true;
}

void buf_addc(struct buf *b, char c)
{
    reserve(b, 1);
    b->data[b->len++] = c;
    b->data[b->len] = '\0';
}

char *buf_room(struct buf *b, size_t len)
{
    reserve(b, len);
    return b->data + b->len;
}

void buf_took(struct buf *b, size_t len)
{
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    reserve(b, 0);
    int n = vsnprintf(b->data + b->len, b->cap - b->len, fmt, ap);
    if (n > 0 && (size_t)n >= b->cap - b->len) { // it did not fit; the needed size is known now
        reserve(b, (size_t)n);
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
    }
    b->len += n > 0 ? (size_t)n : 0;
    va_end(again);
    va_end(ap);
}

void buf_consume(struct buf *b, size_t len)
{
    if (len >= b->len) {
        buf_clear(b);
        return;
    }
    memmove(b->data, b->data + len, b->len - len + 1);
    b->len -= len;
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_take(struct buf *b)
{
    char *data = b->data ? b->data : xstrdup("");
    *b = BUF_INIT;
    return data;
}
