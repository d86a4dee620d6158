// SPDX-License-Identifier: Apache-2.0
// A growable run of bytes.
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

static void append(struct buf *b, const void *data, size_t len)
{
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_add(struct buf *b, const void *data, size_t len)
{
    size_t cap = grown(b, len);
    if (cap != b->cap || !b->data) {
        b->data = xrealloc(b->data, cap);
        b->cap = cap;
    }
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
    buf_add(b, &c, 1);
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list measure;
    va_copy(measure, ap);
    int n = vsnprintf(NULL, 0, fmt, measure);
    va_end(measure);
    if (n > 0) {
        size_t cap = grown(b, (size_t)n);
        if (cap != b->cap) {
            b->data = xrealloc(b->data, cap);
            b->cap = cap;
        }
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
        b->len += (size_t)n;
    }
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
    if (!b->data)
        buf_add(b, "", 0);
    char *data = b->data;
    *b = BUF_INIT;
    return data;
}
