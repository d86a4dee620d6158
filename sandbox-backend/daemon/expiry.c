// SPDX-License-Identifier: Apache-2.0
// Ends, or pauses, sandboxes whose time is over: one timer, for the earliest end.
#include "sandbox-backend/daemon/expiry.h"

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

void expiry_plan(struct store *store)
{
    int64_t earliest = INT64_MAX;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb))
        if (sb->state == SANDBOX_RUNNING && sb->end_ms < earliest)
            earliest = sb->end_ms;
    if (earliest == INT64_MAX || store->stopping) {
        deadline_disarm(&store->expiry);
        return;
    }
    int64_t now = clock_mono_ms();
    deadline_arm(&store->expiry, earliest > now ? (uint64_t)(earliest - now) : 0);
}

static void expire(struct sandbox *sb)
{
    char *detail auto_free =
        str_printf("it was created for %lld s", (long long)(sb->timeout_ms / 1000));
    ending_start(sb, ENDED_EXPIRED, detail);
}

void expiry_on_timer(struct deadline *timer)
{
    struct store *store = container_of(timer, struct store, expiry);
    int64_t now = clock_mono_ms();
    // Ending and pausing are asynchronous: the list stays as it is.
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (sb->state != SANDBOX_RUNNING || !sandbox_is_due(sb, now))
            continue;
        if (sb->auto_pause)
            pause_begin(sb, NULL, NULL);
        else
            expire(sb);
    }
    expiry_plan(store);
}
