// SPDX-License-Identifier: Apache-2.0
// Room and usage: the functions of limits/, applied to a sandbox. A sandbox has to pass two checks:
//
//  1. The quota of its owner (quota.h). Beyond it, the sandbox is refused at once with ERR_LIMIT
//     (429), as E2B refuses what exceeds a team's concurrency: only the owner can make room.
//  2. The room on the host (admission.h). If there is none, the sandbox waits.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/limits/admission.h"
#include "sandbox-backend/daemon/limits/guest_usage.h"
#include "sandbox-backend/daemon/limits/host_usage.h"
#include "sandbox-backend/daemon/limits/quota.h"

struct create_spec;
struct sandbox;
struct store;

void admit_open(struct store *store); // sets up store->admission and store->sampler

// The quota of an owner, as keys.json has it now; no limits without an owner or keys.
struct quota admit_quota(const struct store *store, const char *owner);

// Refuse a create at once: the daemon is stopping, or a quota of the owner is used up.
int admit_check_create(const struct store *store, const struct create_spec *spec, struct err *e);
// Refuse to make what would stay at a node that is being drained. `things`: such as "volumes".
int admit_check_draining(const struct store *store, const char *things, struct err *e);
// Check that this host may take one more sandbox from another node.
int admit_check_arrival(const struct store *store, struct err *e);
// Check that the owner of a sandbox that came from another node may have it here.
// ERR_PRECONDITION: its API key is unknown.
int admit_check_owner(const struct sandbox *sb, struct err *e);
// Return whether a move to another node keeps the sandbox from waking here. Then admit_check_wake
// answers ERR_BUSY, which does not mean that the host is full.
bool admit_is_leaving(const struct sandbox *sb);
// Refuse a wake at once: a quota of the owner is used up. A woken sandbox takes processors, and
// memory if it has no machine.
int admit_check_wake(const struct sandbox *sb, struct err *e);

// Ask for room for a sandbox that is CREATING, or that gets a machine again (admission_enter).
enum admission_answer admit_enter(struct sandbox *sb, admission_cb cb, void *ctx, struct err *e);

// ---- usage
// Return what a sandbox used of the host when it was measured last. Measures nothing.
const struct host_usage *usage_of(struct sandbox *sb);

// Ask envd for its metrics, unless the samples are fresh or the sandbox does not run. Calls `cb`
// once, from the loop: when envd has answered or failed to answer, when the sandbox ends, or soon
// if envd is not asked. `sb` may be gone by then; the callback looks it up again.
void usage_ask_guest(struct sandbox *sb, guest_usage_cb cb, void *ctx);
// Stop asking envd for metrics and commands (sleep/pause.h), because the sandbox is being paused or
// ended.
void usage_stop_asking(struct sandbox *sb);

// Write what the network refused since the last call into the sandbox's journal and call log, and
// what it allowed into its call log. Call it before a machine is given up. Cheap.
//
// A page that looks often makes no lines, since a look writes allowed connections at most every
// 10 s. A guest cannot push out the log: their lines are limited (admit.c), and those beyond wait
// for a later call.
enum usage_note {
    USAGE_NOTE_LOOK,
    USAGE_NOTE_CALL, // a call has ended
    USAGE_NOTE_LAST, // the machine is given up: nothing waits
};
void usage_note_network(struct sandbox *sb, enum usage_note when);
