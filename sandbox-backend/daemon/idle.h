// SPDX-License-Identifier: Apache-2.0
// Sandboxes without use are put to sleep: frozen, later hibernated, and woken by any request. To
// callers they run all the time; their end comes as if they did.
//
// Use is an open request or stream that is not passive (proxy_stream.h), a request that changes or
// connects, and what goes on in the guest without anybody looking: a process that envd started and
// that still runs, a processor that is busy (IDLE_CPU_PERCENT), bytes on the network. To ask for
// health, metrics, lists or the sandbox itself is none. What a user left running behind envd's back
// (nohup) and that only waits is not seen: it stands still with the rest. Who cannot have that says
// so when the sandbox is made ("idle": {"freeze": 0, "hibernate": 0}).
//
// Nobody polls: the one timer of expiry.c comes IDLE_WINDOW_MS before the earliest instant at which
// a sandbox may have been without use for long enough, and looks what its machine has used; then,
// at that instant, what it has used since; and only if that is nothing is envd asked.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define IDLE_FREEZE_S    60 // defaults of the daemon's options
#define IDLE_HIBERNATE_S 600
#define IDLE_MAX_S       (365LL * 24 * 3600)
#define IDLE_WINDOW_MS   5000 // at most half of the time to the freeze
#define IDLE_CPU_PERCENT 5    // of one processor, the VMM's own work included
#define IDLE_NET_BYTES   4096 // in the window; less is what keeps addresses known

struct sandbox;
struct guest_call;

struct idle_policy {
    int64_t freeze_ms;    // without use; 0: never
    int64_t hibernate_ms; // without use, or since it was paused; 0: never
};

struct idle {
    struct idle_policy policy;
    struct guest_call *call; // envd is asked what runs
    int64_t asked_ms;        // monotonic; when
    int64_t sampled_ms;      // monotonic; when these were read, 0: never
    int64_t cpu_ns, net_bytes;
    int64_t again_ms; // monotonic; a hibernation that failed is not tried before
    int failures;     // of hibernating, one after the other
};

// When the timer has to come for it; INT64_MAX: never.
int64_t idle_next_ms(const struct sandbox *sb);
// It has come: does what is due.
void idle_look(struct sandbox *sb, int64_t now_ms);
// The sandbox is being paused or ended: envd is not waited for any more.
void idle_cancel(struct sandbox *sb);
// It could not be hibernated: later, with growing waits. Returns the wait in ms.
int64_t idle_postpone(struct sandbox *sb);
