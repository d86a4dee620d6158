// SPDX-License-Identifier: Apache-2.0
// The caller of a request, with its limits. Over stdio, and over HTTP without tokens, one caller
// without a name stands for everyone who can reach this process. Each token of the file and each
// subject of an issuer is a caller, which sees only its own sandboxes.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/keys/sha256.h"

// A token bucket, which allows bursts of up to a minute's calls.
struct rate {
    int64_t per_minute; // 0: no limit
    int64_t level;      // calls that may be made now, in units of 1/60000 call
    int64_t at_ms;      // monotonic time of `level`
};

void rate_init(struct rate *r, int64_t per_minute, int64_t now_ms); // full
// Change the limit. Calls that were made count against the new one.
void rate_set(struct rate *r, int64_t per_minute, int64_t now_ms);
// Take one call from the bucket. Return 0, or the seconds (at least 1) until a call is free.
int rate_take(struct rate *r, int64_t now_ms);

// The key of a sandbox's metadata that holds the owner. Callers cannot set it.
#define CALLER_METADATA "cubby-owner"

#define CALLER_POSTS_PER_CALL 4 // see auth_take_post

struct config;

struct caller {
    int refs;
    char *owner;           // owned; NULL: the caller without a name. Opaque, at most 200 bytes
    int64_t max_sandboxes; // at once; 0: only the backend's own limit
    // Of each sandbox, of its token; 0 or less: see caller_most.
    int64_t max_timeout_s, max_cpus, max_memory_mb;
    struct rate calls; // see auth_take
    struct rate posts; // see auth_take_post
    struct {
        size_t sessions, streams;
    } open;       // what the caller holds of shared limits: see caller_share_of
    bool revoked; // its token was removed or has expired: end its sessions and streams
    const char *structured, *images; // of its token, static; NULL: as the options say
};

struct caller *caller_new(const char *owner, int64_t max_sandboxes); // held once; owner copied
// Set or change both rates; 0: no limit. As rate_set.
void caller_set_rate(struct caller *c, int64_t calls_per_minute, int64_t now_ms);
void caller_take_rate(struct caller *c,
                      const struct caller *from); // copies the buckets' levels too
// Return whether both have the same owner, or both have none.
bool caller_is_same(const struct caller *a, const struct caller *b);
struct caller *caller_hold(struct caller *c);
void caller_release(struct caller *c); // NULL is fine

// Return whether results for the caller have structuredContent beside the text.
bool caller_wants_structured(const struct caller *caller, const struct config *config);
// Return how results for the caller give images: as content blocks, by the path of a file that
// holds them, or not at all.
enum caller_images { IMAGES_INLINE, IMAGES_PATH, IMAGES_OFF };
enum caller_images caller_images(const struct caller *caller, const struct config *config);

// Return the smaller of the caller's limit and the option; 0: neither is a limit. Both may be 0 or
// less for none.
int64_t caller_most(int64_t own, int64_t option);

// Return the longest time to live that the caller may give a sandbox, in seconds; 0: no limit.
int64_t caller_max_timeout(const struct caller *caller, const struct config *config);
// Return the time to live of a sandbox for which the caller names none, in seconds.
int64_t caller_timeout(const struct caller *caller, const struct config *config);

// Return how much of a shared limit one caller may hold: half of `max`, rounded up, so that no
// token can lock out all others. The caller without a name is the only one, and may hold all of it.
size_t caller_share_of(const struct caller *caller, size_t max);
// Return whether the caller, which holds `mine`, may take `more` while all callers together hold
// `all` of `max`.
bool caller_has_room(const struct caller *caller, size_t mine, size_t all, size_t more, size_t max);

// ---- the callers of an issuer's subjects, one for each, so that a rate covers all tokens of a
// subject. Their number is bounded. At the bound, subjects that were not seen for a minute and have
// nothing open make room for others. By then their buckets are full again, so no rate is forgotten.

struct identities;
struct identities *identities_new(int64_t max_sandboxes, int64_t calls_per_minute);
void identities_free(struct identities *ids);

// Return the caller of a subject, created at the first call. `who`: the hash of issuer and subject.
// Borrowed until the next call. NULL: too many subjects.
struct caller *identities_get(struct identities *ids, const struct sha256 *who, int64_t now_ms);
