// SPDX-License-Identifier: Apache-2.0
// cubby fleet: the proxy's configuration, and moves of sandboxes between nodes (docs/fleet.md).
#pragma once
#include <stdbool.h>

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

// Move all sandboxes of the node `node`, on whose host this runs, to the node that its line names
// by "then". Return the exit status.
struct fleet_drain {
    const char *nodes; // path of the list of nodes
    const char *node;
    const char *to;  // must be the one of the list; NULL: that one
    const char *via; // command that runs cubby on the other host; NULL: by ssh
};
int fleet_drain(const struct fleet_drain *o);

// Sync a file, or a directory, and the name that it has to the disk. The daemon does not do it,
// because its loop would wait.
int fleet_sync(const char *path, struct err *e);

// The other side of a drain: take the sandbox `id` from an archive on standard input, and print
// {"taken": true} or {"taken": false, "why": "..."}. Without either, it may have been taken. Return
// the exit status.
int fleet_receive(const char *id, bool wake);
