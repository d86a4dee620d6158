// SPDX-License-Identifier: Apache-2.0
// On whose behalf a request is made.
#include "mcp-server/auth/caller.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

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
