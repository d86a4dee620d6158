// SPDX-License-Identifier: Apache-2.0
// The head and the tail of a long text.
#include "mcp-server/text/excerpt.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

void excerpt_init(struct excerpt *t, size_t limit)
{
    *t = (struct excerpt){.half = limit / 2};
}

void excerpt_fini(struct excerpt *t)
{
    buf_fini(&t->head);
    free(t->tail);
    t->tail = NULL;
}

void excerpt_clear(struct excerpt *t)
{
    buf_clear(&t->head);
    t->tail_at = 0;
    t->total = 0;
}

bool excerpt_is_cut(const struct excerpt *t)
{
    return excerpt_would_cut(t, 0);
}

bool excerpt_would_cut(const struct excerpt *t, size_t len)
{
    return t->total + (int64_t)len > 2 * (int64_t)t->half;
}

static void tail_add(struct excerpt *t, const char *data, size_t len)
{
    if (!t->tail)
        t->tail = xmalloc(t->half);
    if (len > t->half) {
        data += len - t->half;
        len = t->half;
    }
    size_t first = t->half - t->tail_at < len ? t->half - t->tail_at : len;
    memcpy(t->tail + t->tail_at, data, first);
    memcpy(t->tail, data + first, len - first);
    t->tail_at = (t->tail_at + len) % t->half;
}

// Append the tail in order, as far as it is filled.
static void tail_get(const struct excerpt *t, struct buf *out)
{
    int64_t after_head = t->total - (int64_t)t->head.len;
    if (after_head < (int64_t)t->half) {
        if (after_head > 0)
            buf_add(out, t->tail, (size_t)after_head);
        return;
    }
    buf_add(out, t->tail + t->tail_at, t->half - t->tail_at);
    buf_add(out, t->tail, t->tail_at);
}

void excerpt_add(struct excerpt *t, const char *data, size_t len)
{
    size_t room = t->half - t->head.len;
    size_t first = len < room ? len : room;
    t->total += (int64_t)len;
    buf_add(&t->head, data, first);
    if (len > first)
        tail_add(t, data + first, len - first);
}

void excerpt_get(const struct excerpt *t, struct buf *out)
{
    buf_add(out, buf_str(&t->head), t->head.len);
    tail_get(t, out);
}

size_t excerpt_torn_at_end(const char *s, size_t len)
{
    size_t n = 0;
    while (n < 3 && n < len && ((unsigned char)s[len - 1 - n] & 0xc0) == 0x80)
        n++;
    if (n >= len || (unsigned char)s[len - 1 - n] < 0xc0)
        return 0;
    return utf8_is_valid(s + len - 1 - n, n + 1) ? 0 : n + 1;
}

static size_t torn_at_start(const char *s, size_t len)
{
    size_t n = 0;
    while (n < 3 && n < len && ((unsigned char)s[n] & 0xc0) == 0x80)
        n++;
    return n;
}

json_t *excerpt_text(const struct excerpt *t, const char *remark)
{
    struct buf text auto_buf = BUF_INIT;
    struct buf tail auto_buf = BUF_INIT;
    if (!excerpt_is_cut(t)) {
        excerpt_get(t, &text);
        return json_lossy_string(buf_str(&text), text.len);
    }
    tail_get(t, &tail);
    size_t head_len = t->head.len - excerpt_torn_at_end(t->head.data, t->head.len);
    size_t skip = torn_at_start(tail.data, tail.len);
    long long left_out = (long long)(t->total - (int64_t)head_len - (int64_t)(tail.len - skip));
    buf_add(&text, t->head.data, head_len);
    buf_printf(&text, "\n[... %lld bytes left out%s ...]\n", left_out, remark);
    buf_add(&text, tail.data + skip, tail.len - skip);
    return json_lossy_string(buf_str(&text), text.len);
}
