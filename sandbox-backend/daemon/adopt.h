// SPDX-License-Identifier: Apache-2.0
// What a daemon does with the sandboxes that an earlier one left: finds those again that still run,
// and removes the rest.
//
//  - sandbox.json with an image: PAUSED without a machine. What still runs in that directory is
//    killed: it was being ended, or made from the image.
//  - sandbox.json and a machine that runs: RUNNING again, or ended at once when its time was over.
//    One that stands still though it is to run (its daemon was killed while it was being saved) is
//    woken first.
//  - sandbox.json says that it is paused: PAUSED, once its machine stands still.
//  - sandbox.json says that it is pooled: pool.h decides.
//  - sandbox.json and no machine: the directory goes; it is remembered as lost.
//  - no sandbox.json: its creation never came to an end, so nobody was told of it. Whatever process
//    still has that directory among its arguments or files is killed; the directory goes.
//  - no directory at all: somebody removed it. What surely was of it is killed (orphans.h).
//
// In a directory that stays, an image that the record does not count is removed.
//
// All of them at once; the daemon listens when the last one is decided, so that a client never
// sees a sandbox that is missing for a moment.
#pragma once
#include <stddef.h>

struct store;

// `on_done` comes once, possibly within the call.
void adopt_all(struct store *store, void (*on_done)(void *ctx), void *ctx);
