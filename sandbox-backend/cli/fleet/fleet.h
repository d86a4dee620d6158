// SPDX-License-Identifier: Apache-2.0
// cubby fleet: the proxy's configuration, and moves of sandboxes between nodes (docs/fleet.md).
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/nodes_file.h"

struct fleet_config {
    const char *listen;   // where the proxy listens
    const char *cert;     // its certificate and key; NULL: it speaks HTTP
    const char *ca;       // authorities of the nodes; NULL: the system's
    bool allow_plaintext; // listen beyond loopback without TLS
    struct nodes nodes;
};

void fleet_config_write(const struct fleet_config *c, struct buf *out);
// Print what the certificates of the nodes must have, if that is not what a person expects.
void fleet_config_warn(const struct fleet_config *c);

// Move all sandboxes of the node `node`, on whose host this runs, to the node that its line names
// by "then", or to the one with most room. Return the exit status.
struct fleet_drain {
    const char *nodes; // path of the list of nodes
    const char *node;
    const char *to;     // names with commas between: only these nodes may get them; NULL: any
    const char *via;    // command that runs cubby on the other host; NULL: by ssh
    const char *reload; // command that brings the list to the proxy and the nodes; NULL: a person
                        // does so
    const char *ca;     // authorities of the nodes; NULL: the system's
};
int fleet_drain(const struct fleet_drain *o);

// ---- fleet_target.c

struct node_choice {
    const struct node *node; // borrowed
    int64_t load;            // percent
};
// Choose the node with the least load of those that answer and have room, but none that is being
// drained.
int fleet_choose(const struct fleet_drain *o, const struct nodes *nodes, struct node_choice *out,
                 struct err *e);
bool fleet_allows(const char *names, const char *node); // names: fleet_drain.to
// Write "then=NAME" or "moved=NAME" into the node's line of the list, in place of such a word.
int fleet_list_set(const char *path, const char *node, const char *word, struct err *e);
int fleet_reload(const char *command, struct err *e);

// Sync a file, or a directory, and the name that it has to the disk. The daemon does not do it,
// because its loop would wait.
int fleet_sync(const char *path, struct err *e);

// The other side of a drain: take the sandbox `id` from an archive on standard input, and print
// {"taken": true} or {"taken": false, "why": "..."}. Without either, it may have been taken. Return
// the exit status.
int fleet_receive(const char *id, bool wake);
