// SPDX-License-Identifier: Apache-2.0
// Giving a sandbox of the pool to somebody.
//
//  1. It gets what was asked for (create_identify), its end, and a record that says so: from here
//     on it is his, whatever becomes of this daemon. RESUMING, but shown as running.
//  2. He is answered.
//  3. Its network policy is set, before an instruction of it runs.
//  4. Its machine goes on, and finds POST /init waiting for it.
//  5. /init is answered: token, environment, clock, entropy. RUNNING.
//
// Requests for it that come before step 5 wait for that, as for one that sleeps (pause_wake). A
// failure after step 2 ends it, with the reason. The record holds its environment until step 5 is
// done, so that the next daemon can do what this one had not (handout_adopt).
#pragma once
#include <jansson.h>

#include "sandbox-backend/daemon/create.h"

struct sandbox;

// `sb` is POOLED, and is what was asked for by create_identify. `cb` as create_start's.
void handout_start(struct sandbox *sb, create_cb cb, void *ctx);
// Goes on with one whose record says that an earlier daemon was at it; CREATING, with its machine.
void handout_adopt(struct sandbox *sb);
// The sandbox is being ended. Called by ending.c.
void handout_drop(struct sandbox *sb);
