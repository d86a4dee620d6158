// SPDX-License-Identifier: Apache-2.0
// A wait before something is tried again, which can be given up at any time. For client/ only.
#pragma once
#include <stdint.h>
#include <uv.h>

struct pause; // frees itself

struct pause *pause_start(uv_loop_t *loop, uint64_t ms, void (*on_over)(void *ctx), void *ctx);
void pause_cancel(struct pause *p); // on_over is not called. NULL is fine
