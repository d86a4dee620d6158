// SPDX-License-Identifier: Apache-2.0
// Texts in a stream: found or masked.
#include "sandbox-backend/egress/mask.h"

#include <assert.h>
#include <string.h>

// ---- finding

void scan_init(struct scan *s)
{
    *s = (struct scan){0};
}

void scan_fini(struct scan *s)
{
    buf_fini(&s->held);
}

void scan_add(struct scan *s, const char *text)
{
    assert(s->count < SCAN_TEXTS_MAX && *text);
    s->texts[s->count] = text;
    s->lens[s->count++] = strlen(text);
    s->begins[(unsigned char)*text] = true;
}

// Return the longest text that begins here, or -1. *part: a longer one may begin here, but the
// bytes end too soon.
static int match(const struct scan *s, const char *at, size_t len, bool *part)
{
    int found = -1;
    *part = false;
    for (size_t i = 0; i < s->count; i++) {
        size_t n = s->lens[i] < len ? s->lens[i] : len;
        if (memcmp(at, s->texts[i], n) != 0)
            continue;
        if (n < s->lens[i])
            *part = true;
        else if (found < 0 || s->lens[i] > s->lens[found])
            found = (int)i;
    }
    return found;
}

// Scan until a text is found. Return the number of bytes scanned; *found is the text's index or -1.
static size_t run(const struct scan *s, const char *text, size_t len, bool last, int *found)
{
    *found = -1;
    for (size_t i = 0; i < len; i++) {
        bool part;
        if (!s->begins[(unsigned char)text[i]])
            continue;
        *found = match(s, text + i, len - i, &part);
        if (part && !last)
            *found = -1;
        if (*found >= 0 || (part && !last))
            return i;
    }
    return len;
}

int scan_feed(struct scan *s, const char *data, size_t len, bool last, struct buf *out)
{
    int found;
    if (s->count == 0) {
        buf_add(out, data, len);
        return -1;
    }
    buf_add(&s->held, data, len);
    size_t done = run(s, s->held.data, s->held.len, last, &found);
    buf_add(out, s->held.data, done);
    buf_consume(&s->held, done);
    return found;
}

#define SPARE_STEP 256 // so that the number of bytes held back does not tell how long a value is

// ---- masking

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

// Return the length of the longest text that begins here; 0 for none.
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

// Mask the texts that begin before the last `spare` bytes. Return the number of bytes that are
// done.
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
    buf_add(&all, m->held.data, m->held.len); // the held bytes may be part of a longer text
    hide(m, all.data, all.len, 0);
    buf_add(out, all.data + m->shown, all.len - m->shown);
    m->shown = all.len;
    wipe(&all);
}

void mask_text(const struct mask *m, char *text, size_t len)
{
    hide(m, text, len, 0);
}
