// SPDX-License-Identifier: Apache-2.0
// Shared by pool.c (which members there are), pool_member.c and handout.c.
#pragma once
#include "sandbox-backend/daemon/pool/pool.h"

// ---- one pool member, from nothing to "ready to be handed out" (pool_member.c)
//
//  1. Create its directory.
//  2. The driver restores its machine in the background, without a way to the outside.
//  3. POST /init: entropy, clock, name. No token, as it has no owner yet. (1 to 3: bringup.h.)
//  4. Warm up: run a command, and Python code if the template has Python, so that the guest has
//     loaded what they need. This leaves no file, history, variable or process.
//  5. Wait until the guest has finished its background work, then freeze the machine.
//  6. Write the record with "pooled". The state is POOLED and the slot is free (operation.h).
//
// A caller may claim a member before it is ready (pool__claim). The hand-out then begins after the
// present step, from step 3 on.

// Build a new member. Its state is CREATING, then POOLED. `cb` is called once, from the loop, when
// the member is ready, or when its hand-out begins after a claim. After a failure `sb` is NULL, and
// everything is removed, unless the member is claimed.
void pool__make(struct store *store, const struct known_template *template, sandbox_cb cb,
                void *ctx);
// Claim a member that is being built and has a machine, after create_identify.
void pool__claim(struct sandbox *sb, sandbox_cb cb, void *ctx);

// ---- the hand-out: to give a pool member to a caller (handout.c)
//
//  1. Give the member the request's settings (create_identify) and end time, and write the record.
//     From here on the sandbox is the caller's, even if the daemon ends. Its state is RESUMING;
//     callers see it as running.
//  2. Answer the caller.
//  3. Set the network policy, before the guest runs an instruction.
//  4. Resume the machine, with POST /init waiting for it (bringup_continue).
//  5. /init is answered: the guest has its token, environment, clock and entropy. The state is
//     RUNNING.
//
// If step 3, 4 or 5 fails, or the machine ends before, the sandbox gets another machine, once: the
// daemon ends the member's machine and brings up one from the template (bringup.h). Nobody has used
// the first machine. A claimed member that fails while it is built is handed out in the same way.
//
// Requests that come before step 5 is done wait for it, as they do for a wake (pause_wake). A
// failure of that machine ends the sandbox, with the reason. The record holds the environment until
// step 5 is done, so that the next daemon can finish the hand-out.

// Begin a hand-out, after create_identify. `sb` is POOLED and its slot is free. `cb`: as for
// create_start.
void pool__hand_out(struct sandbox *sb, sandbox_cb cb, void *ctx);
// The same with another machine than the member's, which has failed with `why` or is NULL.
void pool__hand_out_other(struct sandbox *sb, const struct err *why, sandbox_cb cb, void *ctx);
// Finish a hand-out that an earlier daemon began. `sb` is CREATING and has its machine.
void pool__hand_out_again(struct sandbox *sb);
