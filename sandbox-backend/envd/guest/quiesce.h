// SPDX-License-Identifier: Apache-2.0
// POST /freeze and /unfreeze: quiesce the guest. The processes of users stop while the guest kernel
// and envd run. Only the daemon uses this, during a saving, because other machines may be made from
// the image.
//
// A process that runs during a saving continues in each of those guests, and could draw the same
// random numbers from the guest kernel in all of them until /init has reseeded it. So processes are
// stopped before the saving, and continue when /init is done.
//
// All commands are stopped. So is the Python kernel, with everything that it started, if process 1
// has created its group (guest/supervise.c). A process that left its group, which needs root, is
// not stopped. While the guest is quiesced, requests to start a command wait.
#pragma once
#include <stdint.h>

#include "sandbox-backend/envd/core/envd.h"
#include "sandbox-backend/envd/rpc/rpc.h"

// The guest continues after this time if neither /unfreeze nor /init comes. It is longer than a
// daemon waits for the answer of /init (daemon/sandbox/bringup.h): a late guest must not
// continue with random numbers that another guest draws.
#define QUIESCE_MAX_MS 25000

struct quiesce;

// Also continue the processes that an earlier envd has stopped. `cgroup_root`: as for
// processes_new; may be NULL.
struct quiesce *quiesce_new(uv_loop_t *loop, const char *cgroup_root, int64_t max_ms);
void quiesce_close(struct quiesce *f); // continues all processes; freed from the loop

// POST /freeze. 204: all processes have stopped. 200 with a message: some have not stopped yet, and
// it may take long until they do. 503: there are no control groups.
void quiesce_post(struct envd *envd, struct http_request *req, const char *basic);
// POST /unfreeze: always 204.
void quiesce_post_undo(struct envd *envd, struct http_request *req, const char *basic);

// Continue all processes. Called after /init, which has given the guest to another sandbox or set
// its clock. Waiting requests to start a command fail with "send the request again", because their
// clients are gone.
void quiesce_end(struct quiesce *f);

// If the guest is quiesced, keep the call and the request, return true, and call `handle` with both
// when the processes continue.
bool quiesce_hold(struct rpc *call, const json_t *request,
                  void (*handle)(struct rpc *call, const json_t *request));
