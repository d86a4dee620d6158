// SPDX-License-Identifier: Apache-2.0
// What a sandbox that is being rolled back was before, which counts until it runs as the snapshot.
#pragma once
#include "sandbox-backend/daemon/sandbox.h"

// Kept meanwhile: its machine, standing still, with its files out of the way (aside.h), or its
// image. sandbox.json goes on naming that, and is the one truth for a daemon that finds it.
struct rollback {
    struct machine *machine; // owned once `detached`, else the sandbox's; NULL: it has none
    char *image;             // owned; as the sandbox's
    char *build;             // owned; the same
    struct machine_facts facts;
    struct machine_size size;
    enum sandbox_state state; // RUNNING or PAUSED
    bool detached;            // the sandbox's machine is another one, or none yet
    bool aside;               // the machine's files are, or are about to be, elsewhere
    bool over;                // it has worked: the record names the snapshot's machine
    bool undone;              // it has not: the sandbox is as it was, and goes on if it ran
    bool dropped;             // the sandbox is being ended, and `machine` with it
    char *lost;               // owned; how `machine` ended by itself
    struct err err;           // why it has not worked
};

// What counts of the sandbox; NULL: what it is now.
const struct rollback *rollback_truth(const struct sandbox *sb);
// Whether `m`, which has ended, is what it was kept as; then that is all that is done.
bool rollback_on_exit(struct sandbox *sb, struct machine *m, const char *reason);
// The sandbox is being ended: so is, in the same way, the machine that was kept. Holds it.
void rollback_drop(struct sandbox *sb,
                   void (*end_machine)(struct machine *m, void (*on_gone)(void *ctx), void *ctx));
void rollback_free(struct sandbox *sb); // if there is one
