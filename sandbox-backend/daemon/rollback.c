// SPDX-License-Identifier: Apache-2.0
// Rolling back: the sandbox goes on from a snapshot.
#include <stdlib.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/pause_internal.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/templates.h"

static void on_ended(void *ctx);
static void go_on(struct pausing *p);

// The record first: from then on any daemon ends the machine and wakes the sandbox from there.
void rollback__start(struct pausing *p, const struct known_template *to)
{
    struct sandbox *sb = p->sb;
    enum sandbox_state before = sb->state;
    char *image auto_free = steal(&sb->image);
    struct machine_facts facts = sb->facts;
    struct machine_size size = sb->size;
    pause__begin(p, GOAL_RUNNING, "rolled back", SANDBOX_PAUSING);
    FAULT("rollback.1");
    sb->image = xstrdup(to->snapshot);
    sb->facts = to->facts;
    sb->size = to->size;
    char *build auto_free = steal(&sb->build);
    sb->build = to->build ? xstrdup(to->build) : NULL;
    if (record_write(sb, &p->err) < 0) {
        free(sb->image);
        sb->image = steal(&image);
        sb->facts = facts;
        sb->size = size;
        free(sb->build);
        sb->build = steal(&build);
        pause__settle(p, before);
        return;
    }
    FAULT("rollback.2");
    journal_add(&sb->journal, JOURNAL_INFO, "it goes back to snapshot %s", to->snapshot);
    if (sb->machine)
        pause__end_machine(p, on_ended);
    else
        go_on(p);
}

static void on_ended(void *ctx)
{
    struct pausing *p = ctx;
    if (!pause__stepped(p))
        return;
    FAULT("rollback.3");
    go_on(p);
}

// Should it not wake, it is paused, and its callers see that.
static void go_on(struct pausing *p)
{
    if (p->sb->asleep)
        pause_show(p->sb);
    sandbox_set_state(p->sb, SANDBOX_PAUSED);
    wake__start(p);
}
