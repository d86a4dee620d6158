// SPDX-License-Identifier: Apache-2.0
// The names of a mounted directory that the guest's kernel knows, as a tree, and what was lately
// seen of them.
//
// The kernel names a file by its node, the host by its path. A node lives while the kernel or a
// child refers to it. Its path is made from its parents' names when it is needed, so a rename moves
// one node.
//
// A directory may hold a list of its entries, so that the kernel's many look-ups in one directory
// cost one request. A list is used for NODE_FRESH_MS. A change through the mount takes the name out
// of the list; changes on the host show when the list is too old.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/mountd/wire.h"

#define NODE_FRESH_MS 800 // the kernel and this program together remember an attribute for so long

struct node_list {
    char *data; // owned; mount_entry...
    size_t len;
    uint32_t *slots; // owned; offset + 1 of an entry, by the hash of its name
    uint32_t mask;
    bool all; // the directory has no other names
    int64_t at_ms;
};

struct node {
    LIST_ENTRY(node) link;   // in the table of names
    struct node *parent;     // owned reference; NULL: the root, or a name that was removed
    char *name;              // owned
    uint64_t lookups;        // references of the kernel
    size_t children;         // and of nodes below
    size_t uses;             // and of calls and handles
    struct node_list list;   // of a directory
    unsigned generation;     // counts changes below a directory, or of a file's contents
    int64_t missed_ms;       // when a look-up here last cost a request
    int64_t asked_ms;        // when its list was last asked for
    bool listing;            // a request for the list is under way
    bool too_long;           // a list was not complete
    struct mount_facts seen; // of a file, when it was last opened
};

struct node *node_root(void);
// Return the node of a name, made if it is new. The caller adds a reference.
struct node *node_get(struct node *parent, const char *name);
struct node *node_find(const struct node *parent, const char *name); // NULL: none
void node_ref(struct node *n);                                       // for a call or a handle
void node_unref(struct node *n);                                     // may free it
void node_look(struct node *n);                                      // a reference of the kernel
void node_forget(struct node *n, uint64_t lookups);
void node_remove(struct node *parent, const char *name); // the name is gone
void node_move(struct node *parent, const char *name, struct node *to, const char *new_name);
void node_exchange(struct node *parent, const char *name, struct node *to, const char *new_name);

// Write the path of a node, or of a name below it (NULL: none). False: it is too long, or the node
// has no path any more.
bool node_path(const struct node *n, const char *name, char out[PATH_MAX]);

// Note a change of a file's contents or attributes.
void node_changed(struct node *n);
// Note a change of a name in a directory, which is `gone` then, or must be asked for.
void node_changed_name(struct node *parent, const char *name, bool gone);
// Take the list of a directory (copied).
void node_set_list(struct node *n, const char *data, size_t len, bool all, int64_t now_ms);
// Look for a name in the list. Return 1 and set *out; 0: there is no such name; -1: not known.
int node_peek(const struct node *n, const char *name, int64_t now_ms, struct mount_facts *out);
