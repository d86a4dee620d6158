// SPDX-License-Identifier: Apache-2.0
// The file with the nodes of a fleet, which `cubby fleet` and `cubbyd --peers` read. A line is
//
//   NAME URL [agent=HOST:PORT] [then=NAME] [moved=NAME]     # such as: a https://10.0.0.1:3000
//
// `agent` is the address of cubbyd's --agent. `then` names the node to which this one is drained:
// it has those sandboxes of this node that were moved. `moved` says that all of them were moved to
// another node, which answers for this one from now on. "#" begins a comment.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/sandbox_id.h"

#define NODES_MAX 100

struct node {
    char name[NODE_NAME_MAX + 1];
    char *url;                     // owned; "https://10.0.0.1:3000", without a path
    bool tls;                      // the URL's scheme is https
    char *address;                 // owned; "10.0.0.1:3000"
    char *agent;                   // owned; NULL: none
    char moved[NODE_NAME_MAX + 1]; // "": it serves its sandboxes itself
    char then[NODE_NAME_MAX + 1];  // "": no other node has sandboxes of this one
};

struct nodes {
    struct node all[NODES_MAX];
    size_t count;
};

// Read the file. ERR_INVALID names the line that is wrong. Free with nodes_fini, also after -1.
int nodes_read(const char *path, struct nodes *out, struct err *e);
// Do the same with the text of such a file.
int nodes_parse(const char *text, struct nodes *out, struct err *e);
void nodes_fini(struct nodes *nodes);
const struct node *nodes_find(const struct nodes *nodes, const char *name); // NULL: there is none
bool node_is_loopback(const struct node *n); // its address is on this host
