// SPDX-License-Identifier: Apache-2.0
// The end of a sandbox, for whatever reason: the one place where it is taken apart.
//
//  1. KILLING: nobody finds it any more. Its proxied streams are cut off without a clean end,
//     which is how the SDKs learn that it is gone. What the daemon itself asks of it is cancelled.
//  2. Its machine is killed (SIGKILL), its connections are closed; both at once.
//  3. When these are gone, and nobody holds it (a machine that is being made for it, a thread that
//     removes its files), its directory is removed, in steps when it is large (removal.h), and its
//     end is written down.
//  4. Its timer is closed, it is DEAD and freed, and whoever waits is told.
#pragma once
#include "sandbox-backend/daemon/ended.h"

struct machine;
struct sandbox;

// From any state before KILLING. Never completes inside the call. Calls sb->on_ended, when it is
// set by then, after everything is gone. `detail` may be NULL; copied.
void ending_start(struct sandbox *sb, enum ended_why why, const char *detail);

// Something of it is under way that has to end before its directory goes, and it itself.
void ending_hold(struct sandbox *sb);
void ending_unhold(struct sandbox *sb); // never frees it inside the call

// The machine's exit callback (driver.h), with the sandbox as ctx, from RUNNING on.
void ending_on_exit(struct machine *m, const char *reason, void *ctx);
// Puts the last lines of its machine's logs into the daemon's, before its directory goes.
void ending_log_tails(const struct sandbox *sb);

// The daemon goes and the machine stays, for the next daemon to find: nothing of it is removed.
void ending_release(struct sandbox *sb);
