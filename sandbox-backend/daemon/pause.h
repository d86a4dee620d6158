// SPDX-License-Identifier: Apache-2.0
// Pausing a sandbox and waking it again. Its memory stays in place: the machine only stands still.
//
//  pause:  RUNNING -> PAUSING (its streams are cut) -> PAUSED. A machine that cannot be stopped
//          goes on: RUNNING again.
//  wake:   PAUSED -> RESUMING (the machine goes on; POST /init sets the guest's clock) -> RUNNING.
//          A machine that cannot go on is PAUSED again; a guest whose envd does not answer then is
//          stopped again, and PAUSED.
//
// sandbox.json says "paused" from before the machine stands still until after it runs and its clock
// is right, so that a daemon that died in between finds one that is to be paused, and stops it.
//
// A paused sandbox has no end: it stays until it is woken or killed. It counts against the limits
// of sandboxes and of memory.
#pragma once
#include "sandbox-backend/base/err.h"

struct sandbox;

// Exactly once, from the loop, never inside the call. `e` NULL: it is PAUSED, or RUNNING. Else it
// says why not: ERR_GONE when the sandbox is being ended (`sb` is then NULL), ERR_CONFLICT when the
// other was asked for meanwhile.
typedef void (*pause_cb)(struct sandbox *sb, const struct err *e, void *ctx);

// From RUNNING only. `cb` may be NULL.
void pause_begin(struct sandbox *sb, pause_cb cb, void *ctx);

// From any known state (store_find_any): all who ask while it is on its way wait for the same
// waking, those who ask while it is PAUSING for the one after it, and one that is RUNNING is told
// from the loop. Does not move the sandbox's end but where that is past, which becomes now + the
// time that it was given last; a caller that wants another sets it when it is called back.
void pause_wake(struct sandbox *sb, pause_cb cb, void *ctx);

// The sandbox is being ended: whoever waits is told ERR_GONE. Called by ending.c.
void pause_drop(struct sandbox *sb);
// Another has brought it from RESUMING to RUNNING (handout.c): those who wait for that are told.
void pause_arrived(struct sandbox *sb);

// Back to a snapshot, which `to` is (templates_find_as), from RUNNING or PAUSED: its memory,
// processes and disk; who it is, its token and its end stay. It is RUNNING then. When the snapshot
// cannot be woken, it is PAUSED with that as its image.
void pause_rollback(struct sandbox *sb, const struct known_template *to, pause_cb cb, void *ctx);
