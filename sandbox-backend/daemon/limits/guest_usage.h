// SPDX-License-Identifier: Apache-2.0
// Guest usage: what a guest uses of its machine. The daemon keeps the last GUEST_USAGE_MAX answers
// of envd's GET /metrics.
//
// The daemon sends this request when a client asks for the metrics, at most every
// GUEST_USAGE_SPACING_MS, and only while the sandbox runs. So the request wakes no paused sandbox.
// It does not count as use, so it does not keep a sliding sandbox alive. daemon/sandbox/admit.c
// sends it.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define GUEST_USAGE_MAX        120
#define GUEST_USAGE_SPACING_MS 1000

struct guest_usage_sample {
    int64_t at_ns; // wall clock of the host
    double cpu_pct;
    int64_t cpus, mem_used, mem_total, mem_cache, disk_used, disk_total; // bytes
};

struct guest_usage {
    struct guest_usage_sample *samples; // owned; room for GUEST_USAGE_MAX once there is one
    size_t count, next;
    int64_t asked_ms;                   // monotonic; when envd was asked last
    struct guest_usage_waiter *waiters; // owned
};
void guest_usage_fini(struct guest_usage *u);

typedef void (*guest_usage_cb)(void *ctx);
// Wait for the answer of envd: `cb` is called once, from the loop, after guest_usage_tell.
void guest_usage_wait(struct guest_usage *u, uv_loop_t *loop, guest_usage_cb cb, void *ctx);
// Call the waiting callbacks: envd has answered, or has failed to answer, or is not asked any more.
void guest_usage_tell(struct guest_usage *u);
bool guest_usage_is_fresh(const struct guest_usage *u);
void guest_usage_add(struct guest_usage *u, const struct guest_usage_sample *s);

// Read the answer of envd; the time is not set. The guest is not trusted: ERR_INVALID when a figure
// makes no sense.
int guest_usage_parse(const char *text, size_t len, struct guest_usage_sample *s, struct err *e);
// Return the i-th sample of `count`, the oldest first.
const struct guest_usage_sample *guest_usage_at(const struct guest_usage *u, size_t i);
json_t *guest_usage_json(
    const struct guest_usage_sample *s); // E2B's SandboxMetric, a new reference
