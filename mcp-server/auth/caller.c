// SPDX-License-Identifier: Apache-2.0
// Callers, their rates, and the callers of the subjects of an issuer.
#include "mcp-server/auth/caller.h"

#include <stdlib.h>
#include <string.h>

#include "mcp-server/config/config.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ONE_CALL 60000 // the level rises by per_minute each millisecond: a minute fills the bucket

// ---- rates

static void refill(struct rate *r, int64_t now_ms)
{
    int64_t full = r->per_minute * ONE_CALL;
    int64_t passed = now_ms - r->at_ms;
    r->at_ms = now_ms;
    if (passed >= ONE_CALL || r->level + passed * r->per_minute >= full)
        r->level = full;
    else if (passed > 0)
        r->level += passed * r->per_minute;
}

void rate_init(struct rate *r, int64_t per_minute, int64_t now_ms)
{
    *r = (struct rate){
        .per_minute = per_minute,
        .level = per_minute * ONE_CALL,
        .at_ms = now_ms,
    };
}

void rate_set(struct rate *r, int64_t per_minute, int64_t now_ms)
{
    if (r->per_minute == per_minute)
        return;
    if (r->per_minute == 0) {
        rate_init(r, per_minute, now_ms);
        return;
    }
    refill(r, now_ms);
    int64_t used = r->per_minute * ONE_CALL - r->level;
    r->per_minute = per_minute;
    r->level = per_minute * ONE_CALL - used;
    if (r->level < 0)
        r->level = 0;
}

int rate_take(struct rate *r, int64_t now_ms)
{
    if (r->per_minute == 0)
        return 0;
    refill(r, now_ms);
    if (r->level >= ONE_CALL) {
        r->level -= ONE_CALL;
        return 0;
    }
    int64_t wait_ms = (ONE_CALL - r->level + r->per_minute - 1) / r->per_minute;
    return (int)((wait_ms + 999) / 1000);
}

// ---- callers

struct caller *caller_new(const char *owner, int64_t max_sandboxes)
{
    struct caller *c = xmalloc(sizeof *c);
    *c = (struct caller){
        .refs = 1,
        .owner = owner ? xstrdup(owner) : NULL,
        .max_sandboxes = max_sandboxes,
    };
    return c;
}

void caller_set_rate(struct caller *c, int64_t calls_per_minute, int64_t now_ms)
{
    rate_set(&c->calls, calls_per_minute, now_ms);
    rate_set(&c->posts, calls_per_minute * CALLER_POSTS_PER_CALL, now_ms);
}

void caller_take_rate(struct caller *c, const struct caller *from)
{
    c->calls = from->calls;
    c->posts = from->posts;
}

bool caller_is_same(const struct caller *a, const struct caller *b)
{
    return str_eq(a->owner, b->owner);
}

struct caller *caller_hold(struct caller *c)
{
    c->refs++;
    return c;
}

void caller_release(struct caller *c)
{
    if (!c || --c->refs > 0)
        return;
    free(c->owner);
    free(c);
}

bool caller_wants_structured(const struct caller *caller, const struct config *config)
{
    return !str_eq(caller->structured ? caller->structured : config->structured, "off");
}

enum caller_images caller_images(const struct caller *caller, const struct config *config)
{
    const char *how = caller->images ? caller->images : config->images;
    return str_eq(how, "path") ? IMAGES_PATH : str_eq(how, "off") ? IMAGES_OFF : IMAGES_INLINE;
}

int64_t caller_most(int64_t own, int64_t option)
{
    if (own <= 0 || option <= 0)
        return own > 0 ? own : option > 0 ? option : 0;
    return own < option ? own : option;
}

int64_t caller_max_timeout(const struct caller *caller, const struct config *config)
{
    return caller_most(caller->max_timeout_s, config->max_timeout_s);
}

int64_t caller_timeout(const struct caller *caller, const struct config *config)
{
    return caller_most(caller_max_timeout(caller, config), config->sandbox_timeout_s);
}

size_t caller_share_of(const struct caller *caller, size_t max)
{
    return caller->owner ? max / 2 + max % 2 : max;
}

bool caller_has_room(const struct caller *caller, size_t mine, size_t all, size_t more, size_t max)
{
    return all + more <= max && mine + more <= caller_share_of(caller, max);
}

// ---- the callers of an issuer's subjects, in a hash table

#define IDENTITIES_MAX 10000
#define BUCKETS        4096
#define IDLE_MS        60000
#define OWNER_PREFIX   "oauth:"

struct identity {
    struct sha256 who;
    struct caller *caller; // held
    int64_t seen_ms;
    struct identity *next;
};

struct identities {
    int64_t max_sandboxes, calls_per_minute;
    int count;
    int64_t swept_ms;
    struct identity *buckets[BUCKETS];
};

struct identities *identities_new(int64_t max_sandboxes, int64_t calls_per_minute)
{
    struct identities *ids = xcalloc(1, sizeof *ids);
    ids->max_sandboxes = max_sandboxes;
    ids->calls_per_minute = calls_per_minute;
    return ids;
}

// Remove the identities that were last seen at `since_ms` or before. An identity whose caller is
// still held stays, because the caller counts what it has open. INT64_MAX removes all.
static void sweep(struct identities *ids, int64_t since_ms)
{
    for (size_t b = 0; b < BUCKETS; b++) {
        struct identity **link = &ids->buckets[b];
        while (*link) {
            struct identity *one = *link;
            if (one->seen_ms > since_ms || (one->caller->refs > 1 && since_ms < INT64_MAX)) {
                link = &one->next;
                continue;
            }
            *link = one->next;
            caller_release(one->caller);
            free(one);
            ids->count--;
        }
    }
}

void identities_free(struct identities *ids)
{
    if (!ids)
        return;
    sweep(ids, INT64_MAX);
    free(ids);
}

static struct identity *add(struct identities *ids, const struct sha256 *who, size_t bucket,
                            int64_t now_ms)
{
    char owner[sizeof OWNER_PREFIX + SHA256_HEX_CHARS] = OWNER_PREFIX;
    hex_encode(owner + sizeof OWNER_PREFIX - 1, who->bytes, sizeof who->bytes);
    struct identity *made = xmalloc(sizeof *made);
    *made = (struct identity){
        .who = *who,
        .caller = caller_new(owner, ids->max_sandboxes),
        .next = ids->buckets[bucket],
    };
    caller_set_rate(made->caller, ids->calls_per_minute, now_ms);
    ids->buckets[bucket] = made;
    ids->count++;
    return made;
}

struct caller *identities_get(struct identities *ids, const struct sha256 *who, int64_t now_ms)
{
    size_t bucket = (who->bytes[0] | (size_t)who->bytes[1] << 8) % BUCKETS;
    struct identity *one = ids->buckets[bucket];
    while (one && memcmp(&one->who, who, sizeof *who) != 0)
        one = one->next;
    if (!one && ids->count >= IDENTITIES_MAX && now_ms - ids->swept_ms >= 1000) {
        ids->swept_ms = now_ms;
        sweep(ids, now_ms - IDLE_MS);
    }
    if (!one && ids->count < IDENTITIES_MAX)
        one = add(ids, who, bucket, now_ms);
    if (!one)
        return NULL;
    one->seen_ms = now_ms;
    return one->caller;
}
