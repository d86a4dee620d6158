// SPDX-License-Identifier: Apache-2.0
// Masks: values that the call log must not hold.
#include "sandbox-backend/daemon/calls/masks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

#define FILTER_BITS 4096

void masks_fini(struct masks *m)
{
    free(m->all);
    *m = (struct masks){.is_recent = m->is_recent};
}

// ---- marks

static bool has(const struct masks *m, const struct mask *one)
{
    for (size_t i = 0; i < m->count; i++)
        if (m->all[i].hash == one->hash && m->all[i].len == one->len)
            return true;
    return false;
}

static void put(struct masks *m, struct mask one)
{
    size_t max = m->is_recent ? MASKS_RECENT_MAX : MASKS_MAX;
    if (m->is_full || has(m, &one))
        return;
    if (m->count == max && !m->is_recent) {
        m->is_full = true;
        return;
    }
    if (m->count == m->room && m->room < max)
        m->all = xrealloc(m->all, (m->room = m->room ? m->room * 2 : 8) * sizeof *m->all);
    m->all[m->next] = one;
    m->next = (m->next + 1) % max;
    m->count += m->count < max;
}

static uint64_t step(uint64_t hash, uint64_t base, char c)
{
    return hash * base + (unsigned char)c + 1;
}

static struct mask mask_of(uint64_t base, const char *text, size_t len)
{
    struct mask one = {.len = len};
    for (size_t i = 0; i < len; i++)
        one.hash = step(one.hash, base, text[i]);
    return one;
}

static void add_line(struct masks *m, uint64_t base, const char *line, size_t len)
{
    for (size_t at = 0; len - at > MASK_PIECE; at += MASK_PIECE)
        put(m, mask_of(base, line + at, MASK_PIECE));
    size_t last = len > MASK_PIECE ? MASK_PIECE : len;
    if (last >= MASK_MIN)
        put(m, mask_of(base, line + len - last, last));
}

void masks_add(struct masks *m, uint64_t base, const char *value)
{
    while (value && *value) {
        size_t len = strcspn(value, "\r\n");
        add_line(m, base, value, len);
        value += len + strspn(value + len, "\r\n");
    }
}

void masks_add_values(struct masks *m, uint64_t base, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value)
        masks_add(m, base, json_string_value(value));
}

// ---- a text

// The top bits of the hash: each depends on all bytes.
static size_t slot(uint64_t hash)
{
    return hash >> 52;
}

// Look for all marks of one length, with a hash that rolls over the text. `hidden` gets the places.
static void look(const struct masks *m, uint64_t base, const char *text, size_t len, size_t want,
                 char *hidden)
{
    uint8_t filter[FILTER_BITS / 8] = {0};
    uint64_t first = 1; // the factor of a window's first byte
    uint64_t hash = 0;
    for (size_t i = 0; i < m->count; i++)
        if (m->all[i].len == want)
            filter[slot(m->all[i].hash) / 8] |= (uint8_t)(1u << slot(m->all[i].hash) % 8);
    for (size_t i = 1; i < want; i++)
        first *= base;
    for (size_t i = 0; i < len; i++) {
        if (i >= want)
            hash -= first * ((unsigned char)text[i - want] + 1U);
        hash = step(hash, base, text[i]);
        const struct mask here = {hash, want};
        if (i + 1 >= want && filter[slot(hash) / 8] & 1u << slot(hash) % 8 && has(m, &here))
            memset(hidden + i + 1 - want, 1, want);
    }
}

void masks_apply(const struct masks *m, uint64_t base, char *text, size_t len)
{
    uint64_t lengths = 0;
    if (m->is_full)
        memset(text, '*', len);
    for (size_t i = 0; i < m->count; i++)
        lengths |= 1ULL << (m->all[i].len - 1);
    if (!lengths || len < MASK_MIN || m->is_full)
        return;
    char *hidden auto_free = xcalloc(1, len); // of a capped text
    for (size_t want = MASK_MIN; want <= MASK_PIECE && want <= len; want++)
        if (lengths & 1ULL << (want - 1))
            look(m, base, text, len, want, hidden);
    for (size_t i = 0; i < len; i++)
        if (hidden[i])
            text[i] = '*';
}

// ---- JSON

json_t *masks_to_json(const struct masks *m)
{
    json_t *list = m->count ? json_array() : NULL;
    for (size_t i = 0; i < m->count; i++) {
        char hex[17];
        snprintf(hex, sizeof hex, "%016" PRIx64, m->all[i].hash);
        json_array_append_new(list, json_pack("[I, s]", (json_int_t)m->all[i].len, hex));
    }
    return list;
}

void masks_from_json(struct masks *m, const json_t *list)
{
    size_t i;
    const json_t *one;
    json_array_foreach (list, i, one) {
        json_int_t len = json_integer_value(json_array_get(one, 0));
        const char *hex = json_string_value(json_array_get(one, 1));
        if (hex && len >= MASK_MIN && len <= MASK_PIECE)
            put(m, (struct mask){strtoull(hex, NULL, 16), (size_t)len});
    }
}
