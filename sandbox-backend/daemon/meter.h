// SPDX-License-Identifier: Apache-2.0
// How much of its machine a sandbox uses: what envd's GET /metrics said, the last METER_MAX times.
//
// envd is asked when somebody asks us, at most every METER_SPACING_MS, and only while the sandbox
// runs: nobody's looking costs nothing, wakes no paused sandbox, and is no use of it that would
// keep a sliding one alive.
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define METER_MAX        120
#define METER_SPACING_MS 1000

struct sandbox;
struct guest_call;

struct meter_sample {
    int64_t at_ns; // the host's clock
    double cpu_pct;
    int64_t cpus, mem_used, mem_total, mem_cache, disk_used, disk_total; // bytes
};

struct meter {
    struct meter_sample *samples; // owned; room for METER_MAX once there is one
    size_t count, next;
    int64_t asked_ms; // monotonic; when envd was asked last
    struct guest_call *call;
    struct meter_waiter *waiters; // owned
};

typedef void (*meter_cb)(void *ctx);
// Calls once, from the loop, when the samples are as new as they get: also when envd does not
// answer, and when the sandbox ends (after which `sb` may be gone; look it up again).
void meter_refresh(struct sandbox *sb, meter_cb cb, void *ctx);
// The sandbox is being paused or ended: nothing is waited for any more.
void meter_cancel(struct sandbox *sb);
void meter_fini(struct meter *m);

// What envd said, without the time. The guest may say anything: what makes no sense is ERR_INVALID.
int meter_parse(const char *text, size_t len, struct meter_sample *s, struct err *e);
// The i-th of meter.count, the oldest first; as E2B's SandboxMetric, a new reference.
const struct meter_sample *meter_at(const struct meter *m, size_t i);
json_t *meter_json(const struct meter_sample *s);
