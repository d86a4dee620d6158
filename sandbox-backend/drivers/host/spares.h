// SPDX-License-Identifier: Apache-2.0
// Spares: machines without a guest that a driver starts ahead, so that the next create, wake, fork
// or rollback of their template need not wait for the start of QEMU or of a sentry.
//
// This file has the economy; the driver makes and ends its spares. There is at most one for each
// template, and SPARES_MAX of a driver. A template gets its first spare after its first machine,
// and loses it when it was not used for SPARES_IDLE_MS, or is removed. No spare is made or kept
// while less than SPARES_FREE_PERCENT of the host's memory is available. The daemon's loop calls
// everything here.
#pragma once
#include <sys/queue.h>
#include <uv.h>

#define SPARES_MAX          2
#define SPARES_IDLE_MS      600000
#define SPARES_QUIET_MS     300   // after a machine has started: its first command goes first
#define SPARES_LOOK_MS      10000 // between looks at the memory and at the time
#define SPARES_FREE_PERCENT 20

struct spare_shelf;

// The driver's part. `make` begins to make a spare, unless there is one, and `drop` ends it, if
// there is one. Both may fail without a word: machines then start without it.
struct spares {
    void (*make)(uv_loop_t *loop, const char *template_dir);
    void (*drop)(const char *template_dir);
    TAILQ_HEAD(spare_shelves, spare_shelf) shelves; // the template that was used last comes first
};

#define SPARES_INITIALIZER(spares_, make_, drop_)                                              \
    {                                                                                          \
        .make = (make_), .drop = (drop_), .shelves = TAILQ_HEAD_INITIALIZER((spares_).shelves) \
    }

// A machine of the template has started: have a spare for the next one soon. Does nothing if the
// daemon wants no spares.
void spares_want(struct spares *s, uv_loop_t *loop, const char *template_dir);
// End all spares. The loop has to run on, for the handles to close.
void spares_close(struct spares *s);
