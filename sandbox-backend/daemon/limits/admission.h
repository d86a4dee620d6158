// SPDX-License-Identifier: Apache-2.0
// Admission: the decision whether one more sandbox may start on this host, or be woken from the
// disk.
//
// A sandbox needs room in three respects: its number (--max-sandboxes), the memory that guests were
// promised (--max-memory), and the memory that is really free (headroom, below). When there is no
// room, pool members are ended, and the sandbox waits in the admission queue for --create-wait
// seconds. Then it is refused with ERR_BUSY (503) and a Retry-After. The quota of its owner
// (quota.h) is checked before admission.
//
// The queue is first come, first served: a large sandbox that waits is not starved by small ones.
// Room comes when a sandbox ends, is hibernated or gives memory back, so the first ticket is looked
// at every ADMISSION_LOOK_MS.
//
// Headroom. A guest uses far less memory than its size promises: an idle guest of 512 MB has 20 to
// 40 MB of its own under TCG. The rest is the template's memory in the page cache, which all guests
// share. So the headroom is the memory that the host kernel reports as available, less a reserve,
// less the memory that young sandboxes will still take. The memory of a frozen sandbox is not
// available. A hibernated sandbox has no memory.
//
// This folder does not include sandbox.h. `struct admission_source` reports the load of each
// sandbox, and the sums are computed again for each decision. A sandbox counts from its admission
// on.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/limits/host_usage.h"
#include "sandbox-backend/net/deadline.h"

#define ADMISSION_QUEUE_MAX      256 // tickets
#define ADMISSION_LOOK_MS        25
#define ADMISSION_YOUNG_MS       60000 // a younger machine may still grow to its expected size
#define ADMISSION_EXPECTED_BYTES ((int64_t)64 << 20) // of a sandbox, while none is measured

struct admission_limits {
    int64_t sandboxes;       // at once
    int64_t memory_bytes;    // promised to all guests together
    int64_t reserve_percent; // of the host's memory: kept free
    int64_t wait_s;          // longest wait of a sandbox for room
};
void admission_defaults(struct admission_limits *limits); // for this host

// ---- what sandboxes take
struct admission_load {
    int64_t promised_bytes; // memory size that its guest sees
    int64_t used_bytes;     // host memory in use, at the last measurement
    bool is_pooled;         // it is a pool member that no caller has asked for
    bool has_machine;       // it has a machine, or one is being started
    bool grows;             // it runs, or is about to
    bool is_young;          // its machine is younger than ADMISSION_YOUNG_MS
    bool is_measured;       // it runs, and used_bytes is known
};
typedef void (*admission_visit)(const struct admission_load *load, void *arg);

struct admission_source {
    // Call `visit` for each sandbox that was admitted and is not being ended, except `except`.
    void (*each)(void *ctx, const void *except, admission_visit visit, void *arg);
    // End a pool member that no caller has asked for. Do nothing while a sandbox is being ended,
    // because its memory is about to become available.
    void (*give_up)(void *ctx);
    void *ctx;
};

// ---- headroom: pure arithmetic, without looking at the host
struct headroom {
    int64_t total, available; // bytes of the host (host/meminfo.h); 0: unknown
    bool by_group;            // the limit is the daemon's control group, not the host
    int64_t reserve_percent;  // of total: for the host's own programs and the shared page cache
    int64_t measured;         // host memory of all measured running sandboxes together, in bytes
    int64_t measured_count;   // the number of these sandboxes
    int64_t growing;          // bytes that young sandboxes will still take
};
int64_t headroom_reserve(const struct headroom *h);
// Return what a sandbox is expected to take: as much as the running ones on average, at least
// ADMISSION_EXPECTED_BYTES, but at most what its guest sees (`most`).
int64_t headroom_each(const struct headroom *h, int64_t most);
int64_t headroom_free(const struct headroom *h); // above the reserve; negative when below it
bool headroom_fits(const struct headroom *h, int64_t need);

// ---- asking
TAILQ_HEAD(tickets, ticket);
struct admission {
    struct admission_limits limits;
    struct admission_source source;
    struct host_usage_sampler *sampler; // borrowed
    struct tickets tickets;             // of waiting sandboxes, the oldest first
    size_t waiting;
    int64_t refused; // since the daemon's start
    struct deadline look;
};
void admission_init(struct admission *a, uv_loop_t *loop, const struct admission_limits *limits,
                    const struct admission_source *source, struct host_usage_sampler *sampler);
void admission_close(struct admission *a); // no ticket is left

// A request for room, for a sandbox that has no machine yet.
struct admission_want {
    const void *sandbox;    // asks; the `except` of the source
    const char *id;         // for the log; borrowed for as long as it waits
    int64_t promised_bytes; // memory size that its guest sees
    bool is_new;            // it adds one to the number of sandboxes
    struct ticket **ticket; // set while it waits, NULL again after
};
enum admission_answer {
    ADMISSION_REFUSED = -1,
    ADMISSION_NOW, // admitted: it may continue, and it counts from now on
    ADMISSION_WAITS,
};
// Called exactly once, from the loop, unless the ticket was given back. If `e` is NULL, the sandbox
// is admitted, and must begin its bring-up before the callback returns.
typedef void (*admission_cb)(const struct err *e, void *ctx);

// Ask for room. `cb` is called only after ADMISSION_WAITS.
enum admission_answer admission_enter(struct admission *a, const struct admission_want *want,
                                      admission_cb cb, void *ctx, struct err *e);
void admission_leave(struct ticket **ticket); // stop waiting; without a ticket, do nothing

// Return true if a pool member may be handed out now: the limits allow one more sandbox, and no
// ticket waits. A pool member already has its memory, so no headroom is needed.
bool admission_may_hand_out(struct admission *a);
// Return true if there is room for a pool member with a guest of this size, and for one more
// sandbox that a caller may ask for.
bool admission_has_spare(struct admission *a, int64_t promised_bytes);

// Return true if one more sandbox with a guest of this size would be admitted at once.
bool admission_has_room(const struct admission *a, int64_t promised_bytes);
// Return how much of this host is in use, in percent: the largest part of a limit that is reached,
// of the sandboxes, the promised memory, the host's memory and its processors. 100: it is full.
int admission_load_percent(const struct admission *a);

// ---- the sums of what all sandboxes take
struct admission_sums {
    int64_t sandboxes;      // admitted ones, without pool members
    int64_t promised_bytes; // to guests that have a machine
    int64_t pooled;
};
struct admission_sums admission_sum(const struct admission *a, const void *except);
struct headroom admission_headroom(const struct admission *a, const void *except);
