// SPDX-License-Identifier: Apache-2.0
// cubby fleet: the proxy's configuration, and moves of sandboxes between nodes (docs/fleet.md).
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/nodes_file.h"

struct connection;

struct fleet_config {
    const char *listen;   // where the proxy listens
    const char *cert;     // its certificate and key; NULL: it speaks HTTP
    const char *ca;       // authorities of the nodes; NULL: the system's
    bool allow_plaintext; // listen beyond loopback without TLS
    struct nodes nodes;
};

void fleet_config_write(const struct fleet_config *c, struct buf *out);
// Print warnings about what is a mistake on most hosts. It is none if the files are on the proxy's
// host, if nobody else can read the network, or if the certificates have what the warning says.
void fleet_config_warn(const struct fleet_config *c);
// Write the rules of a backend that say which node the number txn.bucket stands for.
void fleet_buckets_write(const struct nodes *nodes, struct buf *out);

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
// "moved=NAME" also replaces the "moved=" of nodes that were moved to this one before.
int fleet_list_set(const char *path, const char *node, const char *word, struct err *e);
int fleet_reload(const char *command, struct err *e);

// One sandbox on its way to the node `node`.
struct fleet_parcel {
    const char *id, *node;
    const char *move; // name of the move, which the daemon that has the sandbox made
    bool wake;        // it is woken there
};

// The other side of a drain: take the sandbox from an archive on standard input, and print
// {"taken": true} or {"taken": false, "barred": ..., "why": "..."}. "barred": true says that this
// move will never bring the sandbox here, also by another command; false, that this command did not
// take it. Without an answer, it may have been taken. Return the exit status.
int fleet_receive(const struct fleet_parcel *p);
// Say whether this host can receive as the node `node`, and print {"ready": true, "format": ...,
// "version": "..."} or {"ready": false, "why": "..."}. Return the exit status.
int fleet_receive_check(const char *node);

// ---- fleet_send.c: the way to the other side. `via` are words for a shell.

// Check that the other side can receive.
int fleet_send_check(const char *via, const char *node, struct err *e);
enum sent {
    SENT_TAKEN,
    SENT_REFUSED, // the other node will never have it by this move
    SENT_NOTHING, // the other node has not got it from this command
    SENT_UNSURE,  // the other node may have it
};
enum sent fleet_send(const char *via, const char *archive, const struct fleet_parcel *p,
                     struct err *e);

// ---- fleet_drain.c, for fleet_abandon.c too

// Check that the daemon of `c` is this node. The error does not say what to do.
int fleet_check_here(struct connection *c, const char *node, struct err *e);
// Take the lock of drains: two would disagree about what the other node has. Return a descriptor.
int fleet_lock(const struct connection *c, struct err *e);

// ---- fleet_abandon.c

// Give up on the moves whose other node is gone for good: their sandboxes are ordinary ones of this
// node again. Return the exit status.
int fleet_abandon(const struct fleet_drain *o);
