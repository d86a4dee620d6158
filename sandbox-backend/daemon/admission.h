// SPDX-License-Identifier: Apache-2.0
// Whether one more sandbox may be made, or woken from the disk, on this machine.
//
//  1. What its owner may have (quota.h). Past it: refused at once, ERR_LIMIT (429), as E2B refuses
//     what exceeds a team's concurrency. Only he himself can make room.
//  2. What the host may have: --max-sandboxes, the guests' promised memory (--max-memory), and what
//     is really free (headroom.h). Past it pooled ones are given up, and then it waits (waiting.h)
//     for --create-wait seconds; then ERR_BUSY (503) with Retry-After.
//
// What has been let in counts from that moment on, as it is in the store, CREATING or RESUMING.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/create.h"
#include "sandbox-backend/daemon/headroom.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/daemon/waiting.h"

// Defaults for this machine.
void admission_defaults(struct store_limits *limits);

// What is refused at once, before anything is made: the daemon is stopping, or the owner has what
// he may have.
int admission_check(const struct store *store, const struct create_spec *spec, struct err *e);

enum admission {
    ADMISSION_REFUSED = -1,
    ADMISSION_NOW, // it may go on, and counts
    ADMISSION_WAITS,
};
// For a sandbox that is in the store: one CREATING, or one that gets a machine again. On
// ADMISSION_WAITS, and only then, `cb` is called later. `memory_there`: its machine is there
// already (it comes out of the pool), so that it takes nothing more.
enum admission admission_enter(struct sandbox *sb, bool memory_there, waiting_cb cb, void *ctx,
                               struct err *e);
// What an existing one needs of its owner's quotas to run again: its processors, and without a
// machine its memory.
int admission_check_wake(struct sandbox *sb, struct err *e);

// Whether it could be let in now. `e`, ERR_BUSY, says what is used and what to do.
bool admission_has_room(struct sandbox *sb, struct err *e);
// It has not, so what nobody has asked for makes room: one that is in the pool is ended, unless one
// of any kind is being ended already.
void admission_make_room(struct sandbox *sb);
// Whether there may be one sandbox more, so that one may be handed out of the pool: its memory is
// there, and nobody waits who would be overtaken.
bool admission_has_place(struct store *store);
// Whether there is room for one that nobody has asked for, of so much guest memory: it leaves room
// for one that somebody may.
bool admission_has_spare(struct store *store, int64_t memory_mb);

// Where things stand. `except` (may be NULL) does not count.
struct admission_sums {
    int64_t sandboxes;      // that have been let in, pooled ones apart
    int64_t promised_bytes; // to guests that have a machine
    int64_t pooled;
};
struct admission_sums admission_sum(struct store *store, const struct sandbox *except);
struct headroom admission_headroom(struct store *store, const struct sandbox *except);
