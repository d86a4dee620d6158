// SPDX-License-Identifier: Apache-2.0
// What sandboxes use of the host, as the driver measures it: the last figures of each, kept in it.
//
// To look at one costs some reads under /proc, where the kernel walks the tables of all its memory.
// So nobody's looking costs nothing, figures are good for a while, and many are looked at in slices
// between which the loop serves others.
#pragma once
#include <stdint.h>

#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/net/deadline.h"

#define USAGE_FRESH_MS 1000  // for who looks at a table
#define USAGE_CPU_MS   30000 // a processor's load is told over no longer than this

struct sandbox;
struct store;

struct usage {
    struct machine_usage last; // all 0 before the first look
    int64_t at_ms;             // monotonic; when that was; 0: never
    double cpu_percent;        // of one processor, between the last two looks; -1: not known
    const struct machine *of;  // which machine: a woken one has another. Never dereferenced
    int64_t since_ms;          // monotonic; when that machine was seen first
};

// Of the machine that it has now; one without a machine uses nothing. Looks at nothing.
const struct usage *usage_of(struct sandbox *sb);

typedef void (*usage_cb)(void *ctx);

struct usage_sampler {
    struct store *store;        // borrowed
    struct deadline turn;       // the next slice
    struct usage_waiter *first; // owned
    int64_t older_ms;           // this sweep looks at what was looked at before this
};
void usage_init(struct usage_sampler *u, struct store *store);
void usage_close(struct usage_sampler *u); // whoever waits is told

// Looks at all whose figures are older than `fresh_ms` and calls once, from the loop. Who asks
// during a sweep is served by it. `cb` may be NULL.
void usage_refresh(struct usage_sampler *u, int64_t fresh_ms, usage_cb cb, void *ctx);
