// SPDX-License-Identifier: Apache-2.0
// Prepare a running guest for an image of its disk alone.
//
//  1. Ask envd for the environment of commands (GET /envs). A guest that boots from the image gets
//     it again by /init, because only the memory has it.
//  2. Run sync(1) in the guest, so that the disk has what the guest kernel still keeps in memory.
//
// The image may lack later writes of programs, as after a loss of power.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

struct sandbox;
struct disk_ready;

// Called once, from the loop. `environment`: an object of strings; borrowed; NULL when `e` is set.
typedef void (*disk_ready_cb)(json_t *environment, const struct err *e, void *ctx);

// The machine of `sb` runs. The caller cancels this when the sandbox ends (ending.h, step 1).
struct disk_ready *disk_ready_start(struct sandbox *sb, disk_ready_cb cb, void *ctx);
void disk_ready_cancel(struct disk_ready *d); // its callback is not called any more
