// SPDX-License-Identifier: Apache-2.0
// Host usage: what each sandbox uses of the host, as its driver measures it.
//
// To measure one machine, the daemon reads some files below /proc, for which the host kernel walks
// the page tables of all the machine's memory. So machines are measured only when a caller asks,
// figures are used again for a while, and a sweep over many machines is cut into slices, between
// which the loop serves other requests.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/net/deadline.h"

#define HOST_USAGE_FRESH_MS 1000  // good enough for a table that a person looks at
#define HOST_USAGE_CPU_MS   30000 // the longest window over which a processor load is reported

struct host_usage {
    struct machine_usage last; // all 0 before the first measurement
    int64_t at_ms;             // monotonic; when it was measured; 0: never
    double cpu_percent;        // of one processor, between the last two; -1: unknown
    const struct machine *of;  // the machine measured; never dereferenced
    int64_t since_ms;          // monotonic; when that machine was seen first
};

// Set the machine (NULL: none) that `u` describes, without measuring it. If it is another machine
// than before, clear the figures. `is_waiting`: the machine is a frozen pool member, so its age
// begins only when it is handed out.
void host_usage_follow(struct host_usage *u, const struct machine *m, bool is_waiting);
// Measure the machine that `u` describes. If that fails, keep the old figures: the machine has
// probably ended. `id` is for the log.
void host_usage_measure(struct host_usage *u, const struct machine *m, const char *id);

typedef void (*host_usage_cb)(void *ctx);
// Measure one machine whose figures are older than the instant `older_ms`. Return false if there is
// no such machine.
typedef bool (*host_usage_next)(void *ctx, int64_t older_ms);

// Sweeps over all machines. One sweep at a time.
struct host_usage_sampler {
    host_usage_next measure_next;
    void *ctx;
    struct deadline turn;       // the next slice
    struct usage_waiter *first; // owned
    int64_t older_ms;           // this sweep's
};
void host_usage_init(struct host_usage_sampler *u, uv_loop_t *loop, host_usage_next measure_next,
                     void *ctx);
void host_usage_close(struct host_usage_sampler *u); // callbacks that are owed are called

// Measure all machines whose figures are older than `fresh_ms`, then call `cb` (may be NULL) once,
// from the loop. A call during a sweep joins that sweep.
void host_usage_refresh(struct host_usage_sampler *u, int64_t fresh_ms, host_usage_cb cb,
                        void *ctx);
