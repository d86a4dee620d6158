// SPDX-License-Identifier: Apache-2.0
// The peers of this node: the other daemons of its fleet (docs/fleet.md). A list is the sum of what
// all nodes have, so the node that is asked sends the same request to all peers, at once.
//
// The client's own key goes with it, so a peer answers what it would answer to the client itself. A
// key travels only by TLS or over loopback, unless the operator allows plaintext. No redirect is
// followed. A request from a peer carries the header PEERS_HEADER and is answered from this node
// alone, so requests cannot run in circles. Each peer has PEERS_MS; what is missing then is named
// to the client and in the log.
//
// The list of nodes is read again when the file changes. A wrong file is logged and not used.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

#define PEERS_HEADER  "Cubby-Peer"
#define PEERS_NODE    "Cubby-Node"          // of an answer to a peer: the name of the node
#define PEERS_MISSING "Cubby-Missing-Nodes" // of an answer: names with commas between
#define PEERS_MS      2000
#define PEERS_BYTES   ((size_t)16 << 20) // longest answer of a peer

struct peers_opts {
    const char *path;     // of the list of nodes (base/nodes_file.h); NULL: no peers
    const char *ca;       // authorities of the peers' certificates, beside the system's; or NULL
    const char *node;     // this node's name
    bool allow_plaintext; // keys may travel without TLS
};

struct peers;

// Check that the options make sense. Reads the file.
int peers_check(const struct peers_opts *opts, struct err *e);
struct peers *peers_new(uv_loop_t *loop, const struct peers_opts *opts); // NULL without a path
void peers_close(struct peers *p); // ends what is under way; the handles close in the loop's turns

// Return whether the answer to this request is the sum of all nodes: there are peers, and it comes
// from a client on TCP. The unix socket shows this node alone, because its callers have no key.
bool peers_asks(const struct peers *p, struct http_request *req);

// Called once, from the loop. `bodies` is an array with the parsed body of each peer that answered
// 200. `more`: a peer has further pages. `running`: the sum of their X-Total-Running. `missing`:
// the names of the others, "" if there are none. All borrowed for the call.
struct peers_sum {
    json_t *bodies;
    bool more;
    int64_t running;
    const char *missing;
};
typedef void (*peers_cb)(const struct peers_sum *sum, void *ctx);

// Send `req` to all peers. `cb` is not called if the client goes first; `on_gone` is called then.
void peers_ask(struct peers *p, struct http_request *req, peers_cb cb, void (*on_gone)(void *ctx),
               void *ctx);
