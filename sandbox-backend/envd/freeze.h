// SPDX-License-Identifier: Apache-2.0
// POST /freeze and /unfreeze: the processes of users stand still, while the guest goes on. For the
// host alone, around the taking of an image from which others go on.
//
// Whatever runs when an image is taken goes on in each guest that is made from it, and could draw
// from the kernel's generator what the others draw, until /init has reseeded it. What is frozen
// goes on when /init is done.
//
// Frozen are all commands and, where PID 1 has made its group (guest/supervise.c), the Python
// kernel with all that it has started. A process that has left its group, which takes root, is not
// reached. No command is started meanwhile: whoever asks for one waits.
#pragma once
#include <stdint.h>

#include "sandbox-backend/envd/envd.h"
#include "sandbox-backend/envd/rpc.h"

// How long what nobody thaws stays frozen. Longer than a daemon gives a guest to answer /init
// (daemon/guest_init.h): one that is late must not begin with what another draws.
#define FREEZE_MAX_MS 25000

struct freeze;

// Thaws what an envd before this one has left. `cgroup_root` as processes_new has it; may be NULL.
struct freeze *freeze_new(uv_loop_t *loop, const char *cgroup_root, int64_t max_ms);
void freeze_close(struct freeze *f); // thaws; frees itself from the loop

// 204: all stand still. 200 with a message: some do not yet, and may not for long. 503: nothing
// can be frozen here.
void freeze_post(struct envd *envd, struct http_request *req);
void freeze_post_undo(struct envd *envd, struct http_request *req); // 204, also when nothing was

// The guest has become another sandbox, or its clock is right again: all go on. Who waited with a
// command is told to ask again: the one that takes his answer is not here any more.
void freeze_end(struct freeze *f);

// Whether it is frozen: then the call is kept, and `handle` called with both when it is not any
// more.
bool freeze_hold(struct rpc *call, const json_t *request,
                 void (*handle)(struct rpc *call, const json_t *request));
