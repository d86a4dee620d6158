// SPDX-License-Identifier: Apache-2.0
// On whose behalf a request is made. Over stdio, and over HTTP without tokens, that is everyone who
// can reach this process: one caller without a name. A token is a caller of its own, who sees the
// sandboxes that were created with it and no others.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp-server/auth/rate.h"

// In a sandbox's metadata: the owner that its caller had. Not for callers to set.
#define CALLER_METADATA "cubby-owner"

#define CALLER_POSTS_PER_CALL 4

struct caller {
    int refs;
    char *owner;           // owned; NULL: nobody in particular. Opaque, at most 200 bytes
    int64_t max_sandboxes; // alive at once; 0: only the backend's own limit
    struct rate calls;     // see auth_take
    struct rate posts;     // see auth_take_post
    struct {
        size_t sessions, streams;
    } open;       // what it holds of what all share: see web_share.h
    bool revoked; // its token is no more: end what is open for it
};

struct caller *caller_new(const char *owner, int64_t max_sandboxes); // held once; owner copied
// Full at first; a changed limit keeps what was used. 0: no limit.
void caller_set_rate(struct caller *c, int64_t calls_per_minute, int64_t now_ms);
void caller_take_rate(struct caller *c, const struct caller *from); // with what was used of it
// Of one owner, both NULL included: what belongs to the one belongs to the other.
bool caller_is_same(const struct caller *a, const struct caller *b);
struct caller *caller_hold(struct caller *c);
void caller_release(struct caller *c); // NULL is fine
