// SPDX-License-Identifier: Apache-2.0
// Cut a stream into envelopes or lines.
#include "sandbox-backend/daemon/calls/pieces.h"

#include <string.h>

void pieces_fini(struct pieces *p)
{
    buf_fini(&p->kept);
}

static void note_tail(struct pieces *p, const char *data, size_t len)
{
    if (len >= PIECE_TAIL) {
        memcpy(p->tail, data + len - PIECE_TAIL, PIECE_TAIL);
        p->tail_len = PIECE_TAIL;
        return;
    }
    size_t stays = p->tail_len + len > PIECE_TAIL ? PIECE_TAIL - len : p->tail_len;
    memmove(p->tail, p->tail + p->tail_len - stays, stays);
    memcpy(p->tail + stays, data, len);
    p->tail_len = stays + len;
}

// Keep what the piece lacks of its first `most` bytes. Return how many bytes were kept.
static size_t keep_first(struct pieces *p, const char *data, size_t len, size_t most)
{
    size_t room = p->kept.len < most ? most - p->kept.len : 0;
    size_t n = len < room ? len : room;
    buf_add(&p->kept, data, n);
    return n;
}

static bool is_longer(const struct pieces *p)
{
    size_t begin = p->longer ? strlen(p->longer) : 0;
    return p->longer && p->kept.len >= begin && memcmp(p->kept.data, p->longer, begin) == 0;
}

static void take(struct pieces *p, const char *data, size_t len)
{
    size_t n = keep_first(p, data, len, p->keep);
    if (is_longer(p))
        keep_first(p, data + n, len - n, p->longer_keep);
    note_tail(p, data, len);
    p->len += len;
}

static void deliver(struct pieces *p, piece_cb cb, void *ctx)
{
    const struct piece piece = {
        (uint8_t)p->head[0], buf_str(&p->kept), p->kept.len, p->len, p->tail, p->tail_len};
    cb(&piece, ctx);
    buf_clear(&p->kept);
    p->len = p->tail_len = p->head_len = 0;
}

static size_t feed_line(struct pieces *p, const char *data, size_t len, piece_cb cb, void *ctx)
{
    const char *end = memchr(data, '\n', len);
    size_t n = end ? (size_t)(end - data) : len;
    take(p, data, n);
    if (!end)
        return n;
    deliver(p, cb, ctx);
    return n + 1;
}

static size_t payload_len(const char *head)
{
    const unsigned char *h = (const unsigned char *)head;
    return (size_t)h[1] << 24 | (size_t)h[2] << 16 | (size_t)h[3] << 8 | h[4];
}

static size_t feed_envelope(struct pieces *p, const char *data, size_t len, piece_cb cb, void *ctx)
{
    size_t n = 0;
    if (p->head_len < sizeof p->head) {
        n = sizeof p->head - p->head_len < len ? sizeof p->head - p->head_len : len;
        memcpy(p->head + p->head_len, data, n);
        p->head_len += n;
        p->left = payload_len(p->head);
    } else {
        n = p->left < len ? p->left : len;
        take(p, data, n);
        p->left -= n;
    }
    if (p->head_len == sizeof p->head && p->left == 0)
        deliver(p, cb, ctx);
    return n;
}

void pieces_feed(struct pieces *p, const char *data, size_t len, piece_cb cb, void *ctx)
{
    while (len > 0) {
        size_t n =
            p->is_lines ? feed_line(p, data, len, cb, ctx) : feed_envelope(p, data, len, cb, ctx);
        data += n;
        len -= n;
    }
}
