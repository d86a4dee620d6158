// SPDX-License-Identifier: Apache-2.0
// Operations: a sandbox has one operation at a time.
//
// Each sandbox has one slot (sandbox.op). An operation takes the slot when it begins and gives it
// back when it ends. The table in operation.c, shown in docs/architecture.md, decides a request for
// another operation in the meantime:
//
//   BEGIN   the slot is free
//   WAIT    the request waits in the sandbox's queue of wishes until the slot is free
//   JOIN    the request asks for the operation that is under way, so it waits for its end
//   REFUSE  the request is in conflict with the operation under way
//   CANCEL  the operation under way is cancelled (the sandbox is being ended)
//
// Only the operation in the slot changes the machine's state, so no operation sees half of another
// one's change. Clients' requests, usage samples and the network policy need no slot.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"

struct deadline;
struct machine;
struct sandbox;

enum operation_kind {
    OPERATION_NONE,
    OPERATION_CREATE,   // sandbox/create.c; also a claimed pool member
    OPERATION_POOL,     // pool/pool_member.c: a pool member is built
    OPERATION_HAND_OUT, // pool/handout.c
    OPERATION_ADOPT,    // adopt/adopt.c
    OPERATION_PAUSE,    // sleep/pause.c freezes, sleep/hibernate.c hibernates
    OPERATION_WAKE,     // sleep/hibernate.c
    OPERATION_ROLLBACK, // sleep/rollback.c
    OPERATION_SAVE,     // snapshot/saving.c
    OPERATION_MOVE,     // sleep/move.c: another node is getting the sandbox
    OPERATION_END,      // sandbox/ending.c; never gives the slot back
    OPERATION_KINDS,
};

enum operation_verdict {
    OPERATION_BEGIN,
    OPERATION_WAIT,
    OPERATION_JOIN,
    OPERATION_REFUSE,
    OPERATION_CANCEL,
};

// Embedded in the struct of each operation.
struct operation {
    enum operation_kind kind;
    struct err err; // why the operation failed; ERR_CANCELED if the sandbox is being ended for
                    // another reason
    // Give up, because the sandbox is being ended. Send no more requests to the guest. Hold the
    // sandbox (ending.h) while the driver or a thread still owes a callback. May be NULL.
    void (*cancel)(struct operation *op, struct sandbox *sb);
    // The sandbox, whose end cancelled the operation, is gone with all its files. May be NULL.
    void (*on_gone)(struct operation *op);
    // The machine ended by itself. Return true if the sandbox outlives that. May be NULL.
    bool (*on_exit)(struct operation *op, struct sandbox *sb, struct machine *m,
                    const char *reason);
};

// A request that waits for the slot.
struct operation_wish {
    TAILQ_ENTRY(operation_wish) link;
    // Called from the loop when the slot is free, or with `ended` when the sandbox is being ended.
    // The wish has left the queue by then. It may be freed or put into the queue again.
    void (*on_turn)(struct operation_wish *wish, bool ended);
    bool waits;
};
TAILQ_HEAD(operation_wishes, operation_wish); // of one sandbox, the oldest first

// Return what a request for an operation leads to now.
enum operation_verdict operation_ask(const struct sandbox *sb, enum operation_kind wanted);

// Take the slot, after operation_ask has returned BEGIN.
void operation_begin(struct sandbox *sb, struct operation *op, enum operation_kind kind);
// Give the slot back. The sandbox is in its new state. The wishes have their turn, and the timer of
// all sandboxes is set again.
void operation_end(struct sandbox *sb, const struct operation *op);
// End the sandbox, because the operation in its slot has failed. `doing` names the step that
// failed; may be NULL.
void operation_fail(struct sandbox *sb, const char *doing, const struct err *e);

// Put a wish at the end of the queue, unless it is in it.
void operation_wait(struct sandbox *sb, struct operation_wish *wish);

// For ending.c: cancel the operation under way and take the slot for the end of the sandbox. The
// wishes are called with `ended`, from the loop.
void operation_cancel(struct sandbox *sb);
void operation__on_turn(struct deadline *turn); // of sandbox.turn
