// SPDX-License-Identifier: Apache-2.0
// Pausing a sandbox, in two depths, and waking it.
//
//  freeze:    the machine is stopped and keeps its memory.
//  hibernate: a frozen machine's state is written to <dir>/image, then the machine is ended.
//  disk:      the guest writes its file systems, the disk alone is saved to <dir>/image, then the
//             machine is ended (disk_pause.c). A wake boots a guest from that disk.
//  wake:      the machine is resumed, or made from the image.
//  rollback:  a second machine is made from a snapshot, then the old one is ended (rollback.c).
//
// sandbox.h has the states. An operation that fails leaves the sandbox as it was before.
//
// A sandbox that is put to sleep (below) is `asleep` until it is woken: callers see it as running,
// it keeps its end time, and its passive streams stay open.
//
// The record says "paused" from before the machine is frozen until after the machine runs and its
// clock is right. A daemon that adopts a sandbox in the middle of a pause or a wake pauses it. The
// record says "image" from the completion of the image until the machine that was made from it is
// usable. So at any time the sandbox is either its image or its machine, never both. During a
// rollback the record keeps the state that the sandbox had before.
//
// A paused sandbox has no end time: it stays until it is woken or killed. It counts for the limit
// of sandboxes and, while it has a machine, for the limit of memory.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/daemon/sandbox/sandbox.h"

struct known_template;

// The callbacks' errors: ERR_GONE (the sandbox is being ended), ERR_CONFLICT (the opposite was
// requested in the meantime), ERR_LIMIT or ERR_BUSY (no room).

enum pause_depth { PAUSE_FREEZE, PAUSE_HIBERNATE, PAUSE_DISK };

// Pause a RUNNING sandbox, or hibernate a PAUSED one. PAUSE_DISK needs a RUNNING one.
void pause_begin(struct sandbox *sb, enum pause_depth depth, sandbox_cb cb, void *ctx);
// Put a RUNNING sandbox to sleep. Its slot is free.
void pause_sleep(struct sandbox *sb);
// Freeze a RUNNING sandbox whose record says paused, because an earlier daemon was freezing or
// waking it. If it was asleep, it stays asleep.
void pause_again(struct sandbox *sb, sandbox_cb cb, void *ctx);
// Pause a sandbox at its end time. It is RUNNING or asleep, and its slot is free.
void pause_overdue(struct sandbox *sb);
// Hibernate a PAUSED sandbox with a machine. After a failure the daemon tries again later (below).
void pause_deepen(struct sandbox *sb);

// Wake a sandbox from any known state (store_find_any). A request joins a wake that is under way,
// and waits for the end of any other operation. For a RUNNING sandbox the callback comes from the
// loop. The end time stays; if it is past, it becomes now + the sandbox's last timeout. A caller
// that wants another end time sets it in the callback.
void pause_wake(struct sandbox *sb, sandbox_cb cb, void *ctx);

// The same for a request to a port of the sandbox. If it resumes a paused sandbox (autoResume), the
// sandbox gets its first timeout again, and at least AUTO_RESUME_MS, as with E2B.
#define AUTO_RESUME_MS 300000
void pause_wake_by_use(struct sandbox *sb, sandbox_cb cb, void *ctx);
// Wait for the end of a pause that is under way, as if the request had begun it.
void pause_join(struct sandbox *sb, enum pause_depth depth, sandbox_cb cb, void *ctx);
// Return true if the pause that is under way keeps the disk alone.
bool pause_is_disk(const struct sandbox *sb);

// Roll a sandbox back to the snapshot `to` (templates_find_as), from RUNNING or PAUSED: its memory,
// processes and disk. Its identity, token and end time stay. Afterwards it is RUNNING. If no usable
// machine can be made from the snapshot, or the host has no room for both machines, the sandbox
// stays as it was, and the error says so.
void pause_rollback(struct sandbox *sb, const struct known_template *to, sandbox_cb cb, void *ctx);

// ---- sleep (idle.c)
//
// Sleep: sandboxes without use are frozen, later hibernated, and woken by any request. Callers see
// them as running all the time, and their end time comes all the same.
//
// These count as use:
//  - an open request or stream that is not passive (proxy_stream.h);
//  - a request that changes the sandbox or connects to it;
//  - in the guest: a process that envd started and that still runs, a busy processor
//    (IDLE_CPU_PERCENT), bytes on the network. If the usage cannot be read, that counts as use.
// Requests for health, metrics, lists or the sandbox's details are not use. The daemon does not see
// a waiting process that has left envd's control (nohup), so that process is frozen with the rest.
// A caller that cannot accept that turns the sleep off when it creates the sandbox ("idle":
// {"freeze": 0, "hibernate": 0}).
//
// Nothing polls. The timer of store.h fires IDLE_WINDOW_MS before the earliest instant at which a
// sandbox may have been without use for long enough, and samples the machine's usage. At that
// instant it samples again. Only if the machine was nearly idle in between, the daemon asks envd.
#define IDLE_WINDOW_MS   5000 // at most half of the time to the freeze
#define IDLE_CPU_PERCENT 5    // of one processor, the VMM's own work included
#define IDLE_NET_BYTES   4096 // in the window; ARP and the like stay below it

// Return when idle_look has to be called next; INT64_MAX: never.
int64_t idle_next_ms(const struct sandbox *sb);
// Do what is due now: sample the usage, ask envd, freeze or hibernate.
void idle_look(struct sandbox *sb, int64_t now_ms);
// Postpone the next hibernation after a failure, each time by twice as long. Return the wait in ms.
int64_t idle_postpone(struct sandbox *sb);
