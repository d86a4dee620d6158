// SPDX-License-Identifier: Apache-2.0
// The callers that were made of subjects of an issuer.
#include "mcp-server/auth/identities.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

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

// Removes those not seen since, of whom nothing is open: what they hold is counted in their caller.
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
