// SPDX-License-Identifier: Apache-2.0
// A turn of cubby sync in progress: what sync_turn.c and sync_items.c share.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/cli/copy/listing.h"
#include "sandbox-backend/cli/copy/moving.h"
#include "sandbox-backend/cli/copy/sync_state.h"
#include "sandbox-backend/cli/copy/sync_turn.h"

enum action { KEEP, NOTE, SEND, FETCH, DELETE_GUEST, DELETE_HOST, CONFLICT, FORGET, SKIP };

struct item {
    const char *path;                 // borrowed
    const struct entry *host, *guest; // borrowed; NULL: not there
    enum action action;
    char *other;            // owned; of a conflict: the path that the sandbox's version gets
    struct move move;       // of the entry that is copied; of a conflict, the host's
    struct move other_move; // of a conflict: the sandbox's version to the host
    bool is_restored;       // one side deleted what the other changed
    bool done;
};

struct turn {
    const struct sync *o;
    struct remote *r;
    int root;
    const char *here; // borrowed; the path of `root`, resolved
    const char *path; // of the sandbox
    const struct sync_rules *ignored;
    struct sync_state state;
    struct listing host, guest;
    struct listing repositories; // sync_git.h
    struct item *items;          // owned
    size_t count;
    struct moving moving;
    int64_t deleted;
    const char *hidden; // borrowed: the last hidden name that was left out, and its path
    int64_t changing;   // entries that changed while they were copied
    int64_t waiting;    // changes that go the other way than this turn
    json_t *conflicts;  // owned; {"path", "kept"} of each
};

// Join both listings into items, and decide what is done with each.
void sync__make_items(struct turn *t);
