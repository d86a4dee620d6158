// SPDX-License-Identifier: Apache-2.0
// What the files of pausing share: pause.c (freezing, and who waits for what), hibernate.c, wake.c,
// rollback.c.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/daemon/guest_init.h"
#include "sandbox-backend/daemon/pause.h"
#include "sandbox-backend/daemon/sandbox.h"

enum pause_goal { GOAL_RUNNING, GOAL_FROZEN, GOAL_HIBERNATED };

struct pause_waiter;
STAILQ_HEAD(pause_waiters, pause_waiter);

// What is under way with one sandbox. Waiters who ask for another thing stay for the next turn.
struct pausing {
    struct sandbox *sb;           // borrowed; NULL once it is ended and nothing is under way here
    struct pause_waiters waiters; // owned
    struct guest_init *init;      // POST /init
    struct guest_call *still;     // POST /freeze, before it is stopped
    struct deadline turn;         // tells the waiters, from the loop
    struct err err;               // of what was tried last
    int64_t start_ms;
    enum pause_goal tried; // last
    const char *done;      // what that is called when it has worked: "paused"
    bool busy;             // a callback is owed, also when the sandbox is being ended
    bool ended;            // it is: what is under way is only waited for
    bool going, answered;  // a frozen one: its machine is told to go on; its /init is answered
};

struct pausing *pause__of(struct sandbox *sb); // made when there is none
// Something is tried, in this state of the sandbox.
void pause__begin(struct pausing *p, enum pause_goal goal, const char *done,
                  enum sandbox_state state);
// It is over, with p->err set or not: the state that it left, the record, and a turn for those who
// wait.
void pause__settle(struct pausing *p, enum sandbox_state state);
// A call of the driver's, or a thread's work, is owed: the sandbox stays until it has come.
void pause__step(struct pausing *p);
// It has come. False: the sandbox is being ended, and nothing more is to be done.
bool pause__stepped(struct pausing *p);
// Asks the machine for one thing.
void pause__ask(struct pausing *p, void (*what)(struct machine *m, machine_done_cb cb, void *ctx),
                machine_done_cb cb);
// Ends its machine, which nobody is to know any more; then `cb`, with the sandbox, also when that
// is being ended meanwhile.
void pause__end_machine(struct pausing *p, void (*cb)(void *pausing));

// From PAUSED.
void wake__start(struct pausing *p);
// From RESUMING, with room for it: from its image, or frozen as it is.
void wake__make(struct pausing *p);
void wake__continue(struct pausing *p);
void hibernate__start(struct pausing *p); // it has a machine
// From RUNNING or PAUSED.
void rollback__start(struct pausing *p, const struct known_template *to);
// What is being rolled back (sb->rollback) runs as the snapshot; or cannot, p->err says why.
void rollback__succeed(struct pausing *p);
void rollback__undo(struct pausing *p);
// It was undone, and is this now.
void rollback__settle(struct pausing *p, enum sandbox_state state);
