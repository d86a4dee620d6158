// SPDX-License-Identifier: Apache-2.0
// All sandboxes of this daemon, what is remembered of ended ones, and what they may use together.
#include "sandbox-backend/daemon/store.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/expiry.h"

int store_open(struct store *store, uv_loop_t *loop, const struct driver *driver, const char *home,
               const struct store_limits *limits, struct err *e)
{
    *store = (struct store){.loop = loop, .driver = driver, .limits = *limits};
    store->home = xstrdup(home);
    store->dir = home_path(home, "sandboxes");
    TAILQ_INIT(&store->sandboxes);
    ended_open(&store->ended, home);
    deadline_init(&store->expiry, loop, expiry_on_timer);
    waiting_init(&store->waiting, store);
    usage_init(&store->sampler, store);
    return dir_make(store->dir, 0700, e) < 0 ? -1 : snapshots_open(&store->snapshots, home, e);
}

void store_close(struct store *store)
{
    deadline_close(&store->expiry, NULL);
    waiting_close(&store->waiting);
    usage_close(&store->sampler);
}

void store_fini(struct store *store)
{
    snapshots_fini(&store->snapshots);
    ended_close(&store->ended);
    free(store->dir);
    free(store->home);
}

void store_add(struct store *store, struct sandbox *sb)
{
    TAILQ_INSERT_TAIL(&store->sandboxes, sb, link);
    store->count++;
}

void store_remove(struct store *store, struct sandbox *sb)
{
    TAILQ_REMOVE(&store->sandboxes, sb, link);
    store->count--;
    if (store->count == 0 && store->on_empty)
        store->on_empty(store->on_empty_ctx);
}

struct sandbox *store_find_any(const struct store *store, const char *id)
{
    size_t len = strcspn(id, "-");
    if (len != SANDBOX_ID_LEN)
        return NULL;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sandbox_is_known(sb) && memcmp(sb->id, id, len) == 0)
            return sb;
    return NULL;
}

struct sandbox *store_find(const struct store *store, const char *id)
{
    struct sandbox *sb = store_find_any(store, id);
    return sb && sb->state == SANDBOX_RUNNING ? sb : NULL;
}

const struct ended_entry *store_find_ended(struct store *store, const char *id)
{
    char plain[SANDBOX_ID_LEN + 1] = "";
    size_t len = strcspn(id, "-");
    if (len != SANDBOX_ID_LEN)
        return NULL;
    memcpy(plain, id, len);
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (sb->state != SANDBOX_KILLING || sb->forget || strcmp(sb->id, plain) != 0)
            continue;
        store->ending = sandbox_ending_entry(sb);
        return &store->ending;
    }
    return ended_find(&store->ended, plain);
}

size_t store_of_owner(const struct store *store, const char *owner)
{
    size_t n = 0;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        n += str_eq(sb->owner, owner);
    return n;
}

int64_t store_memory_bytes(const struct store *store)
{
    int64_t bytes = 0;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        bytes += sandbox_is_hibernated(sb) ? 0 : sb->facts.memory_mb * 1024 * 1024;
    return bytes;
}

void store_stop(struct store *store, void (*on_empty)(void *ctx), void *ctx)
{
    store->stopping = true;
    if (store->count == 0) {
        on_empty(ctx);
        return;
    }
    store->on_empty = on_empty;
    store->on_empty_ctx = ctx;
}
