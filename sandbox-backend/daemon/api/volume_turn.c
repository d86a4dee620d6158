// SPDX-License-Identifier: Apache-2.0
// Turns of requests that change a volume.
#include "sandbox-backend/daemon/api/volume_turn.h"

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"

#define WAIT_MS 5000 // for the lock, once no other request of this daemon is before
#define LOOK_MS 5    // between two tries

static void begin(struct volume_turn *t)
{
    t->until = clock_mono_ms() + WAIT_MS;
    deadline_arm(&t->again, 0);
}

static void on_again(struct deadline *d)
{
    struct volume_turn *t = container_of(d, struct volume_turn, again);
    t->has_lock = space_try_lock(&t->space->space);
    if (!t->has_lock && clock_mono_ms() < t->until)
        deadline_arm(d, LOOK_MS);
    else
        t->cb(t, t->has_lock);
}

void volume_turn_init(struct volume_turn *t, uv_loop_t *loop,
                      void (*cb)(struct volume_turn *t, bool has_lock))
{
    *t = (struct volume_turn){.cb = cb};
    deadline_init(&t->again, loop, on_again);
}

void volume_turn_begin(struct volume_turn *t, struct volume_space *space)
{
    t->space = space;
    TAILQ_INSERT_TAIL(&space->turns, t, link);
    if (TAILQ_FIRST(&space->turns) == t)
        begin(t);
}

void volume_turn_end(struct volume_turn *t)
{
    struct volume_space *space = steal(&t->space);
    if (!space)
        return;
    bool was_first = TAILQ_FIRST(&space->turns) == t;
    deadline_disarm(&t->again);
    if (t->has_lock)
        space_unlock(&space->space);
    t->has_lock = false;
    TAILQ_REMOVE(&space->turns, t, link);
    struct volume_turn *next = TAILQ_FIRST(&space->turns);
    if (was_first && next)
        begin(next);
}

void volume_turn_close(struct volume_turn *t, void (*on_closed)(struct deadline *again))
{
    volume_turn_end(t);
    deadline_close(&t->again, on_closed);
}
