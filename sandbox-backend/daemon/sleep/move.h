// SPDX-License-Identifier: Apache-2.0
// A move of a sandbox to another node, as far as it concerns the node that has it. `cubby fleet
// drain` drives it (docs/fleet.md):
//
//  1. move_begin hibernates the sandbox. From then on its record says "moving", so it does not wake
//     here, also after a restart of the daemon.
//  2. `cubby` carries the image and the record to the other node, which adopts them (arrival.h).
//  3. move_commit notes that the sandbox is there (moved.h), and removes it here. Or, if the other
//     node has not taken it, move_cancel makes it an ordinary sandbox again.
//
// At any moment at most one node lets the sandbox run. A command that ends between the steps leaves
// a sandbox that is moving; the next one repeats the steps, and the other node takes it only once.
//
// Requests that would wake the sandbox wait for the end of the move, for MOVE_HOLD_MS at most. Then
// the proxy of the fleet sends them to the other node.
#pragma once
#include "sandbox-backend/daemon/sandbox/sandbox.h"

#define MOVE_HOLD_MS 60000

// Check that the sandbox can be moved at all; the error says why it stays.
int move_check(const struct sandbox *sb, struct err *e);
// The streams that a move may cut in a sandbox that runs.
enum move_cuts { MOVE_CUTS_NOTHING, MOVE_CUTS_STREAMS /* proxy_answers */, MOVE_CUTS_ALL };

// Begin, unless the sandbox is moving to this node already. After a failure it is not moving.
// ERR_CONFLICT: its state changes just now, or it is moving to another node. ERR_BUSY: it has
// requests that `cuts` protects.
int move_begin(struct sandbox *sb, const char *node, enum move_cuts cuts, sandbox_cb cb, void *ctx,
               struct err *e);
// A command goes on with the move: let requests wait, if they do not do so already.
void move_hold(struct sandbox *sb);
// Wait for the end of the move, or until requests are let go. ERR_GONE: the sandbox has gone.
void move_wait(struct sandbox *sb, sandbox_cb cb, void *ctx);
// The other node has not taken it. It is an ordinary sandbox again, and runs if it ran before.
void move_cancel(struct sandbox *sb);
// The other node has it. The removal goes on after the call.
int move_commit(struct sandbox *sb, struct err *e);
void move_let_go(struct sandbox *sb); // a hook of the store
