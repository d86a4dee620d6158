// SPDX-License-Identifier: Apache-2.0
// The valid bearer tokens of a file, and their callers.
#include "mcp-server/auth/tokens.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/token_ring.h"
#include "sandbox-backend/log/log.h"

struct tokens {
    int64_t max_sandboxes, calls_per_minute;
    struct token_ring ring;
    struct caller **callers; // owned, each held; in the order of ring.list
};

// Return the index of the token of this name, or -1.
static int find_name(const struct token_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (str_eq(list->items[i].name, name))
            return i;
    return -1;
}

// Return the caller of a token, held. A token that was in the old list keeps its caller. A new
// token under an old name gets a new caller with the old one's rate. The old caller is revoked.
static struct caller *caller_of(const struct tokens *t, const struct token *token,
                                const struct token_list *old, int64_t now_ms)
{
    int64_t sandboxes = token->max_sandboxes < 0 ? t->max_sandboxes : token->max_sandboxes;
    int64_t calls = token->calls_per_minute < 0 ? t->calls_per_minute : token->calls_per_minute;
    int at = find_name(old, token->name);
    struct caller *c;
    if (at >= 0 && sha256_equal(&old->items[at].digest, &token->digest)) {
        c = caller_hold(t->callers[at]);
        c->max_sandboxes = sandboxes;
    } else {
        char *owner auto_free = str_printf("token:%s", token->name);
        c = caller_new(owner, sandboxes);
        if (at >= 0)
            caller_take_rate(c, t->callers[at]);
    }
    c->max_timeout_s = token->max_timeout_s;
    c->max_cpus = token->max_cpus;
    c->max_memory_mb = token->max_memory_mb;
    c->structured = token->structured;
    c->images = token->images;
    caller_set_rate(c, calls, now_ms);
    return c;
}

static void drop_callers(struct caller **callers, int count)
{
    for (int i = 0; i < count; i++)
        caller_release(callers[i]);
    free(callers);
}

static void revoke_expired(struct tokens *t)
{
    int64_t now_ns = clock_wall_ns();
    for (int i = 0; i < t->ring.list.count; i++)
        t->callers[i]->revoked = t->ring.list.items[i].expires_ns <= now_ns;
}

// Replace the callers after a change of the ring's list. `old` is the list of the present callers.
static void put_in_force(struct tokens *t, const struct token_list *old)
{
    int64_t now_ms = clock_mono_ms();
    const struct token_list *list = &t->ring.list;
    struct caller **callers = xcalloc((size_t)list->count + 1, sizeof(struct caller *));
    for (int i = 0; i < list->count; i++)
        callers[i] = caller_of(t, &list->items[i], old, now_ms);
    for (int i = 0; i < old->count; i++)
        t->callers[i]->revoked = true;
    drop_callers(t->callers, old->count);
    t->callers = callers;
    revoke_expired(t); // also clears the mark of callers that are in the new list
}

// Refuse the limits that only cubbyd enforces, for its API keys. Here they would have no effect.
static int check(const struct token_ring *ring, struct err *e)
{
    for (int i = 0; i < ring->list.count; i++) {
        const struct token *t = &ring->list.items[i];
        if (t->max_snapshots >= 0 || t->max_disk_mb >= 0 || t->max_ports >= 0 ||
            t->max_builds >= 0 || *t->tiers || t->admin)
            return err_set(e, ERR_INVALID,
                           "%s: max_snapshots, max_disk_mb, max_ports, max_builds and tiers of "
                           "\"%s\" are not available for tokens, only for cubbyd's API keys",
                           ring->path, t->name);
    }
    return 0;
}

struct tokens *tokens_new(const char *path, int64_t max_sandboxes, int64_t calls_per_minute,
                          struct err *e)
{
    const struct token_list none = {0};
    struct tokens *t = xcalloc(1, sizeof *t);
    t->max_sandboxes = max_sandboxes;
    t->calls_per_minute = calls_per_minute;
    if (token_ring_init(&t->ring, path, false, e) == 0) {
        put_in_force(t, &none);
        if (check(&t->ring, e) == 0)
            return t;
    }
    tokens_free(t);
    return NULL;
}

void tokens_free(struct tokens *t)
{
    if (!t)
        return;
    drop_callers(t->callers, t->ring.list.count);
    token_ring_fini(&t->ring);
    free(t);
}

void tokens_refresh(struct tokens *t, int64_t now_ms)
{
    struct token_list old;
    struct err e = ERR_INIT;
    if (token_ring_refresh(&t->ring, now_ms, &old)) {
        put_in_force(t, &old);
        token_list_fini(&old);
        if (check(&t->ring, &e) < 0)
            log_error("tokens.limit", "error=\"%s\"", e.msg);
    }
    revoke_expired(t);
}

struct caller *tokens_find(struct tokens *t, const struct sha256 *digest, int64_t now_ms,
                           int64_t *until_ns)
{
    tokens_refresh(t, now_ms);
    int found = token_ring_find(&t->ring, digest);
    *until_ns = INT64_MAX;
    if (found < 0)
        return NULL;
    *until_ns = t->ring.list.items[found].expires_ns;
    return *until_ns <= clock_wall_ns() ? NULL : t->callers[found];
}
