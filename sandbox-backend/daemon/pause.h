// SPDX-License-Identifier: Apache-2.0
// Pausing a sandbox, in two depths, and waking it again.
//
//  freeze:    RUNNING -> PAUSING (its streams are cut) -> PAUSED. The machine only stands still,
//             its memory stays. One that cannot be stopped goes on: RUNNING again.
//  hibernate: PAUSED -> PAUSING (the machine's state is written to <dir>/image, the record says so,
//             the machine is ended) -> PAUSED without a machine. When the state cannot be written
//             it stays frozen.
//  wake:      PAUSED -> RESUMING -> RUNNING. The machine goes on, or is made from the image; POST
//             /init sets the guest's clock. What fails is PAUSED again, as it was before: a frozen
//             one is stopped again, one that was made anew is ended, and its image stays.
//  rollback:  RUNNING or PAUSED -> PAUSING (there is room, what it is stands still) -> RESUMING (a
//             machine is made from the snapshot beside it) -> RUNNING. What fails is what it was
//             before, RUNNING or PAUSED (rollback.h).
//
// A sandbox that is put to sleep (idle.h) goes the same ways; it is `asleep` until it is woken,
// shows as running, keeps its end, and its passive streams are not cut.
//
// sandbox.json says "paused" from before the machine stands still until after it runs and its clock
// is right, so that a daemon that died in between finds one that is to be paused, and stops it. It
// says "image" from when that is whole until after the machine that was made from it is usable, so
// that there is always one of the two, and it is known which one counts. While it is rolled back it
// says what was before.
//
// A paused sandbox has no end: it stays until it is woken or killed. It counts against the limit of
// sandboxes, and while it has a machine against that of memory.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

struct sandbox;
struct known_template;

// Exactly once, from the loop, never inside the call. `e` NULL: it is as it was to be. Else it says
// why not: ERR_GONE when the sandbox is being ended (`sb` is then NULL), ERR_CONFLICT when the
// other was asked for meanwhile, ERR_LIMIT or ERR_BUSY when there is no room for it.
typedef void (*pause_cb)(struct sandbox *sb, const struct err *e, void *ctx);

enum pause_depth { PAUSE_FREEZE, PAUSE_HIBERNATE };

// From RUNNING, or to a greater depth from PAUSED. `cb` may be NULL.
void pause_begin(struct sandbox *sb, enum pause_depth depth, pause_cb cb, void *ctx);
// It is not used: from RUNNING.
void pause_sleep(struct sandbox *sb);
// As a daemon before had it, or was about to: asleep or paused. From RUNNING.
void pause_again(struct sandbox *sb, pause_cb cb, void *ctx);
// It sleeps, and its time is over: from now on it is paused to its callers, too.
void pause_show(struct sandbox *sb);
// Not to be woken soon: from PAUSED with a machine. A failure is tried again later (idle.h).
void pause_deepen(struct sandbox *sb);

// From any known state (store_find_any): all who ask while it is on its way wait for the same
// waking, those who ask while it is PAUSING for the one after it, and one that is RUNNING is told
// from the loop. Does not move the sandbox's end but where that is past, which becomes now + the
// time that it was given last; a caller that wants another sets it when it is called back.
void pause_wake(struct sandbox *sb, pause_cb cb, void *ctx);
// Another has brought it from RESUMING to RUNNING (handout.c): those who wait for that are told.
void pause_arrived(struct sandbox *sb);

// Back to a snapshot, which `to` is (templates_find_as), from RUNNING or PAUSED: its memory,
// processes and disk; who it is, its token and its end stay. It is RUNNING then. When the snapshot
// cannot be woken, or there is no room for it beside what the sandbox is, that goes on, and the
// error says so.
void pause_rollback(struct sandbox *sb, const struct known_template *to, pause_cb cb, void *ctx);

// The sandbox is being ended: whoever waits is told ERR_GONE. Called by ending.c.
void pause_drop(struct sandbox *sb);
