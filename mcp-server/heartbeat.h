// SPDX-License-Identifier: Apache-2.0
// Says every two seconds how long something takes, for notifications/progress.
#pragma once
#include <stdint.h>
#include <uv.h>

struct heartbeat;

// `seconds` increases with each call.
struct heartbeat *heartbeat_start(uv_loop_t *loop, void (*on_beat)(int64_t seconds, void *ctx),
                                  void *ctx);
// No beat comes any more; frees itself, then calls on_closed.
void heartbeat_stop(struct heartbeat *h, void (*on_closed)(void *ctx), void *ctx);
