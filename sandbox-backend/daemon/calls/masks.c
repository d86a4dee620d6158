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
    free(m->buckets);
    *m = (struct masks){.is_recent = m->is_recent};
}

// ---- marks

// The top bits of a hash: each depends on all bytes.
static size_t bucket(uint64_t hash)
{
    return hash >> 56;
}

static bool has(const struct masks *m, uint64_t hash, size_t len)
{
    if (!m || !m->buckets)
        return false;
    for (size_t at = m->buckets[bucket(hash)]; at; at = m->all[at - 1].next)
        if (m->all[at - 1].hash == hash && m->all[at - 1].len == len)
            return true;
    return false;
}

static void forget(struct masks *m, size_t i)
{
    uint16_t *at = &m->buckets[bucket(m->all[i].hash)];
    while (*at != i + 1)
        at = &m->all[*at - 1].next;
    *at = m->all[i].next;
}

static void put_up_to(struct masks *m, struct mask one, size_t max)
{
    if (has(m, one.hash, one.len))
        return;
    if (m->count >= max && !m->is_recent) {
        m->is_full = true;
        return;
    }
    if (!m->buckets)
        m->buckets = xcalloc(MASKS_BUCKETS, sizeof *m->buckets);
    if (m->count == max)
        forget(m, m->next);
    else if (m->count == m->room)
        m->all = xrealloc(m->all, (m->room = m->room ? m->room * 2 : 8) * sizeof *m->all);
    uint16_t *first = &m->buckets[bucket(one.hash)];
    m->all[m->next] = (struct mask){one.hash, one.len, *first};
    *first = (uint16_t)(m->next + 1);
    m->count += m->count < max;
    m->next = m->is_recent ? (m->next + 1) % max : m->count;
}

static uint64_t step(uint64_t hash, uint64_t base, char c)
{
    return hash * base + (unsigned char)c + 1;
}

static struct mask mask_of(uint64_t base, const char *text, size_t len)
{
    struct mask one = {.len = (uint16_t)len};
    for (size_t i = 0; i < len; i++)
        one.hash = step(one.hash, base, text[i]);
    return one;
}

static void add_line(struct masks *m, uint64_t base, const char *line, size_t len, size_t max)
{
    for (size_t at = 0; len - at > MASK_PIECE; at += MASK_PIECE)
        put_up_to(m, mask_of(base, line + at, MASK_PIECE), max);
    size_t last = len > MASK_PIECE ? MASK_PIECE : len;
    if (last >= MASK_MIN)
        put_up_to(m, mask_of(base, line + len - last, last), max);
}

static void add_lines(struct masks *m, uint64_t base, const char *value, size_t max)
{
    while (value && *value) {
        size_t len = strcspn(value, "\r\n");
        add_line(m, base, value, len, max);
        value += len + strspn(value + len, "\r\n");
    }
}

void masks_add(struct masks *m, uint64_t base, const char *value)
{
    add_lines(m, base, value, m->is_recent ? MASKS_RECENT_MAX : MASKS_MAX);
}

void masks_add_values(struct masks *m, uint64_t base, const json_t *object)
{
    const char *name;
    json_t *value;
    size_t max = m->is_recent ? MASKS_RECENT_MAX : MASKS_VALUES_MAX;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value)
        add_lines(m, base, json_string_value(value), max);
}

// ---- a text

struct search {
    const struct masks *const *sets;
    size_t count;
    uint64_t base;
};

// The bit of a hash in a filter.
static size_t slot(uint64_t hash)
{
    return hash >> 52;
}

static bool is_marked(const struct search *s, uint64_t hash, size_t len)
{
    for (size_t i = 0; i < s->count; i++)
        if (has(s->sets[i], hash, len))
            return true;
    return false;
}

static void fill(const struct search *s, size_t want, uint8_t *filter)
{
    for (size_t set = 0; set < s->count; set++)
        for (size_t i = 0; s->sets[set] && i < s->sets[set]->count; i++) {
            const struct mask *one = &s->sets[set]->all[i];
            if (one->len == want)
                filter[slot(one->hash) / 8] |= (uint8_t)(1u << slot(one->hash) % 8);
        }
}

// Look for all marks of one length, with a hash that rolls over the text. `hidden` gets the places.
static void look(const struct search *s, const char *text, size_t len, size_t want, char *hidden)
{
    uint8_t filter[FILTER_BITS / 8] = {0};
    uint64_t first = 1; // the factor of a window's first byte
    uint64_t hash = 0;
    fill(s, want, filter);
    for (size_t i = 1; i < want; i++)
        first *= s->base;
    for (size_t i = 0; i < len; i++) {
        if (i >= want)
            hash -= first * ((unsigned char)text[i - want] + 1U);
        hash = step(hash, s->base, text[i]);
        if (i + 1 >= want && filter[slot(hash) / 8] & 1u << slot(hash) % 8 &&
            is_marked(s, hash, want))
            memset(hidden + i + 1 - want, 1, want);
    }
}

static uint64_t lengths_of(const struct search *s)
{
    uint64_t lengths = 0;
    for (size_t set = 0; set < s->count; set++)
        for (size_t i = 0; s->sets[set] && i < s->sets[set]->count; i++)
            lengths |= 1ULL << (s->sets[set]->all[i].len - 1);
    return lengths;
}

void masks_apply(const struct masks *const *sets, size_t set_count, uint64_t base, char *text,
                 size_t len)
{
    const struct search s = {sets, set_count, base};
    uint64_t lengths = lengths_of(&s);
    if (!lengths || len < MASK_MIN)
        return;
    char *hidden auto_free = xcalloc(1, len); // of a capped text
    for (size_t want = MASK_MIN; want <= MASK_PIECE && want <= len; want++)
        if (lengths & 1ULL << (want - 1))
            look(&s, text, len, want, hidden);
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
            put_up_to(m, (struct mask){.hash = strtoull(hex, NULL, 16), .len = (uint16_t)len},
                      m->is_recent ? MASKS_RECENT_MAX : MASKS_MAX);
    }
}
