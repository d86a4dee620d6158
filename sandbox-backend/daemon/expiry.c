// SPDX-License-Identifier: Apache-2.0
// What comes by time: one timer, for the earliest instant.
#include "sandbox-backend/daemon/expiry.h"

#include <sys/param.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"

#define RECORDS_MAX 16 // that are tried again in one turn

// Whether its end counts now. One that is on its way somewhere is planned for when it is there.
static bool has_end(const struct sandbox *sb)
{
    return sb->state == SANDBOX_RUNNING || (sb->state == SANDBOX_PAUSED && sb->asleep);
}

// When its record is to be tried again. Of one that is being ended it is removed.
static int64_t record_ms(const struct sandbox *sb)
{
    return sb->record_again_ms && sandbox_is_known(sb) ? sb->record_again_ms : INT64_MAX;
}

static int64_t next_ms(const struct sandbox *sb)
{
    int64_t next = MIN(idle_next_ms(sb), record_ms(sb));
    return has_end(sb) ? MIN(next, sb->end_ms) : next;
}

void expiry_plan(struct store *store)
{
    int64_t earliest = INT64_MAX;
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        int64_t next = next_ms(sb);
        if (next < earliest)
            earliest = next;
    }
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

static void end(struct sandbox *sb)
{
    if (!sb->auto_pause)
        expire(sb);
    else if (sb->state == SANDBOX_RUNNING)
        pause_begin(sb, PAUSE_FREEZE, NULL, NULL);
    else
        pause_show(sb);
}

void expiry_on_timer(struct deadline *timer)
{
    struct store *store = container_of(timer, struct store, expiry);
    int64_t now = clock_mono_ms();
    int records = 0;
    // Ending and pausing are asynchronous: the list stays as it is.
    for (struct sandbox *sb = store_first(store); sb; sb = store_next(sb)) {
        if (record_ms(sb) <= now && records++ < RECORDS_MAX)
            record_write_or_log(sb);
        if (has_end(sb) && sandbox_is_due(sb, now))
            end(sb);
        else
            idle_look(sb, now);
    }
    expiry_plan(store);
}
