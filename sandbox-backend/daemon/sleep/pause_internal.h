// SPDX-License-Identifier: Apache-2.0
// Shared by pause.c (the freeze and the waiting requests), hibernate.c and rollback.c.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/daemon/sandbox/operation.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sleep/pause.h"

enum pause_goal { GOAL_RUNNING, GOAL_FROZEN, GOAL_HIBERNATED, GOAL_DISK };

struct pause_waiter;
STAILQ_HEAD(pause_waiters, pause_waiter);

// A rollback in progress. Until the snapshot's machine is usable, the sandbox is still its machine
// or image from before the rollback: a machine is kept frozen, with its files put aside (files.h),
// and an image is kept as it is. For the next daemon, the record still names them (sandbox.ground).
struct rollback {
    struct sandbox_ground was; // its machine is owned once `detached`; its strings are owned
    struct net_noted noted;    // of that machine
    bool detached;             // `was.machine` is not the sandbox's machine now
    bool undone;               // the rollback failed, and the fields are restored
    char *lost;                // owned; how the kept machine ended by itself
    struct err err;            // why the rollback failed
};

// The next step of an operation. It looks at p->err first.
typedef void (*pause_next)(struct pausing *p);

// The pausing, waking and rolling back of one sandbox: the waiting requests and the operation.
struct pausing {
    struct operation op;          // in the slot during an operation
    struct operation_wish wish;   // in the queue while a waiter needs a callback or an operation
    struct sandbox *sb;           // borrowed
    struct pause_waiters waiters; // owned
    struct guest_call *still;     // POST /freeze, before the machine is stopped
    struct disk_ready *ready;     // before that, if the disk alone is saved
    json_t *disk_env;             // owned; the result of `ready`
    struct rollback *rollback;    // owned; during a rollback
    struct err err;               // of the last operation
    int64_t start_ms;
    enum pause_goal tried; // of the last operation
    const char *done;      // the result in words, such as "paused"
    pause_next next;       // while the driver or a thread owes a callback; the sandbox is held
    bool ended;            // the sandbox is being ended
};

// Begin an operation, and put the sandbox into `state`.
void pause__begin(struct pausing *p, enum operation_kind kind, enum pause_goal goal,
                  const char *done, enum sandbox_state state);
// End the operation, with p->err set or not: set the state, write the record, give back the slot,
// and let the waiters have a turn.
void pause__settle(struct pausing *p, enum sandbox_state state);
void pause__settle_paused(struct pausing *p); // a pause_next

// Call this before a function of the driver or of files.h that gets one of the callbacks below.
// Hold the sandbox until that callback comes, then call `next`. If the sandbox is being ended by
// then, free `p` instead.
void pause__step(struct pausing *p, pause_next next);
void pause__on_step(void *pausing);
void pause__on_machine(struct machine *m, const struct err *e, void *pausing); // sets p->err

// Freeze the sandbox's machine.
void pause__stop_machine(struct pausing *p, pause_next next);
// End the sandbox's machine, which the record must not name any more.
void pause__end_machine(struct pausing *p, pause_next next);

// For move.c: hibernate a RUNNING or PAUSED sandbox. One that callers see as running stays so: it
// is asleep. Its streams are cut.
void pause__leave(struct sandbox *sb, sandbox_cb cb, void *ctx);

// Return the time to live of a sandbox that wakes after its end time, by the requests that wait.
int64_t pause__life_ms(const struct pausing *p);

// Wake a PAUSED sandbox.
void wake__start(struct pausing *p);
// From RESUMING, after admission: make a machine from the sandbox's image, or resume the frozen
// one.
void wake__make(struct pausing *p);
void wake__continue(struct pausing *p);
void hibernate__start(struct pausing *p); // the sandbox has a machine
// The image in FILES_NEW_IMAGE is complete, and p->disk_env is set if it has a disk alone. Make it
// the sandbox's, and end the machine.
int hibernate__keep(struct pausing *p);

// Pause a RUNNING sandbox and keep its disk alone.
void disk_pause__start(struct pausing *p);
void disk_pause__cancel(struct pausing *p); // the sandbox is being ended

// For disk_pause.c: the machine could not be stopped or saved. The sandbox goes on running. At its
// end time, it is paused again after some time, not at once.
void pause__stay_running(struct pausing *p);

// Roll back a RUNNING or PAUSED sandbox. `to` has the snapshot's id as its image, and the build,
// facts and size that the sandbox takes over from the snapshot. The function takes its strings.
void rollback__start(struct pausing *p, struct sandbox_ground *to);
// For hibernate.c: the snapshot's machine is usable, or it failed with p->err.
void rollback__succeed(struct pausing *p);
void rollback__undo(struct pausing *p);
// End a failed rollback. The sandbox is as it was before and now has this state.
void rollback__settle(struct pausing *p, enum sandbox_state state);
// A machine ended by itself. Return true if it is the kept one, which is handled here.
bool rollback__on_exit(struct operation *op, struct sandbox *sb, struct machine *m,
                       const char *reason);
// End the kept machine, because the sandbox is being ended.
void rollback__cancel(struct pausing *p);
void rollback__free(struct pausing *p); // if there is one
