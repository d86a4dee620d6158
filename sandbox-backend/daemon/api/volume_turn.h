// SPDX-License-Identifier: Apache-2.0
// Turns of requests that change a volume: one at a time has the lock of the volume's room.
//
// The lock is between processes, and all threads of this one share its descriptor, so requests of
// one volume wait in a queue of their own. The first one tries to get the lock, again and again by
// a timer: a guest that holds the lock delays this volume's requests, and no thread of the pool.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "sandbox-backend/daemon/volumes/volumes.h"
#include "sandbox-backend/net/deadline.h"

struct volume_turn {
    TAILQ_ENTRY(volume_turn) link;
    struct volume_space *space; // borrowed; NULL: not waiting, and it has no turn
    struct deadline again;
    int64_t until; // of the first one: when it gives up, by the monotonic clock
    bool has_lock;
    void (*cb)(struct volume_turn *t, bool has_lock);
};

// Wait for a turn. `cb` is called later, once; without the lock if another process kept it too
// long. The turn lasts until volume_turn_end, in either case. `space` must stay until then.
void volume_turn_init(struct volume_turn *t, uv_loop_t *loop,
                      void (*cb)(struct volume_turn *t, bool has_lock));
void volume_turn_begin(struct volume_turn *t, struct volume_space *space);
// End a turn, or stop waiting for it. Nothing happens if it has not begun.
void volume_turn_end(struct volume_turn *t);
// End it, and call back when the memory may be freed.
void volume_turn_close(struct volume_turn *t, void (*on_closed)(struct deadline *again));
