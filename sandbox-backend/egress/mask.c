// SPDX-License-Identifier: Apache-2.0
// Overwrites texts in a stream.
#include "sandbox-backend/egress/mask.h"

#include <assert.h>
#include <string.h>

#define SPARE_STEP 256 // what is held back does not tell how long a value is

void mask_init(struct mask *m)
{
    *m = (struct mask){0};
}

static void wipe(struct buf *b)
{
    if (b->data)
        explicit_bzero(b->data, b->cap);
    buf_fini(b);
}

void mask_fini(struct mask *m)
{
    wipe(&m->held);
}

static void measure(struct mask *m)
{
    m->spare = 0;
    for (size_t i = 0; i < m->count; i++)
        while (m->lens[i] > m->spare + 1)
            m->spare += SPARE_STEP;
}

void mask_add(struct mask *m, const char *text)
{
    assert(m->count < MASK_TEXTS_MAX && *text);
    m->texts[m->count] = text;
    m->lens[m->count++] = strlen(text);
    m->begins[(unsigned char)*text] = true;
    measure(m);
}

void mask_keep(struct mask *m, size_t count)
{
    assert(count <= m->count);
    m->count = count;
    measure(m);
}

// How long the longest text is that stands here; 0: none does.
static size_t find(const struct mask *m, const char *at, size_t len)
{
    size_t found = 0;
    if (!m->begins[(unsigned char)*at])
        return 0;
    for (size_t i = 0; i < m->count; i++)
        if (m->lens[i] <= len && m->lens[i] > found && memcmp(at, m->texts[i], m->lens[i]) == 0)
            found = m->lens[i];
    return found;
}

// Masks what begins before the last `spare` bytes. How far that is.
static size_t hide(const struct mask *m, char *text, size_t len, size_t spare)
{
    size_t i = 0;
    while (i + spare < len) {
        size_t found = find(m, text + i, len - i);
        memset(text + i, '*', found);
        i += found ? found : 1;
    }
    return i;
}

void mask_feed(struct mask *m, const char *data, size_t len, bool last, struct buf *out)
{
    if (m->count == 0) {
        buf_add(out, data, len);
        return;
    }
    buf_add(&m->held, data, len);
    size_t done = hide(m, m->held.data, m->held.len, last ? 0 : m->spare);
    if (done > m->shown)
        buf_add(out, m->held.data + m->shown, done - m->shown);
    m->shown = m->shown > done ? m->shown - done : 0;
    buf_consume(&m->held, done);
}

bool mask_waits(const struct mask *m)
{
    return m->held.len > m->shown;
}

void mask_pause(struct mask *m, struct buf *out)
{
    struct buf all = BUF_INIT;
    if (!mask_waits(m))
        return;
    buf_add(&all, m->held.data, m->held.len); // what is held may be part of a longer text
    hide(m, all.data, all.len, 0);
    buf_add(out, all.data + m->shown, all.len - m->shown);
    m->shown = all.len;
    wipe(&all);
}

void mask_text(const struct mask *m, char *text, size_t len)
{
    hide(m, text, len, 0);
}
