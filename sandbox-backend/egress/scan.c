// SPDX-License-Identifier: Apache-2.0
// Looks for texts in a stream, across the borders of its pieces.
#include "sandbox-backend/egress/scan.h"

#include <assert.h>
#include <string.h>

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

// The longest text that begins here, or -1. *part: a longer one may, the bytes end too soon.
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

// Stops at what is found. Returns how far it came; *found is -1 or what stopped it.
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
