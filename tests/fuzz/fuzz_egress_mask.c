// SPDX-License-Identifier: Apache-2.0
// Fuzz the mask with answers whose bytes a hostile guest has chosen, in pieces and with pauses. No
// value comes out whole, nothing is lost, and the timing and sizes of the output tell nothing of
// the values.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PAUSE 0xff // in the place of a piece's length

static const char *const TEXTS[] = {"abcabcabd", "abcabcabdabcabcabe", "bcab%2Fcabd",
                                    "dddddddddddd"};

static void require(bool promise)
{
    if (!promise)
        abort();
}

static void add_all(struct mask *m)
{
    mask_init(m);
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++)
        mask_add(m, TEXTS[i]);
}

static bool holds_any(const struct buf *b)
{
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++)
        if (b->len && memmem(b->data, b->len, TEXTS[i], strlen(TEXTS[i])))
            return true;
    return false;
}

// The same pieces and pauses with nothing in them that is ever masked.
struct twins {
    struct mask mask, blank;
    struct buf in, out, blank_out;
    bool paused;
};

static void feed(struct twins *t, const uint8_t *piece, size_t len, bool last)
{
    char *zeros = xcalloc(1, len + 1);
    mask_feed(&t->mask, (const char *)piece, len, last, &t->out);
    mask_feed(&t->blank, zeros, len, last, &t->blank_out);
    buf_add(&t->in, piece, len);
    free(zeros);
}

static void rest(struct twins *t)
{
    mask_pause(&t->mask, &t->out);
    mask_pause(&t->blank, &t->blank_out);
    t->paused = true;
    require(!mask_waits(&t->mask) && t->out.len == t->in.len);
}

static void check_whole(const struct twins *t)
{
    require(t->out.len == t->in.len && !mask_waits(&t->mask) && !holds_any(&t->out));
    for (size_t i = 0; i < t->in.len; i++)
        require(t->out.data[i] == t->in.data[i] || t->out.data[i] == '*');
    struct buf at_once auto_buf = BUF_INIT;
    buf_add(&at_once, t->in.data, t->in.len);
    mask_text(&t->mask, at_once.data, at_once.len);
    require(t->paused || t->in.len == 0 || memcmp(at_once.data, t->out.data, t->in.len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct twins t = {.paused = false};
    add_all(&t.mask);
    add_all(&t.blank);
    for (size_t i = 0; i < size;) {
        size_t len = data[i++];
        if (len == PAUSE) {
            rest(&t);
            continue;
        }
        len = len < size - i ? len : size - i;
        feed(&t, data + i, len, false);
        require(t.out.len == t.blank_out.len || holds_any(&t.in));
        i += len;
    }
    feed(&t, data, 0, true);
    check_whole(&t);
    mask_fini(&t.mask);
    mask_fini(&t.blank);
    buf_fini(&t.in);
    buf_fini(&t.out);
    buf_fini(&t.blank_out);
    return 0;
}
