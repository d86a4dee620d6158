// SPDX-License-Identifier: Apache-2.0
// The form of ids. A sandbox id is the name of its node, which may be empty, and 20 random
// characters. So a proxy finds the node without a table: it is all but the last 20 characters. An
// id of a daemon without a node name has 20 characters. A snapshot id is "snap-" and such an id. A
// build id is a UUID, after the node's name and "-" if the node has a name.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define SANDBOX_ID_CHARS "abcdefghijklmnopqrstuvwxyz0123456789"
#define SANDBOX_ID_LEN   20 // the random characters
#define NODE_NAME_MAX    11 // of SANDBOX_ID_CHARS
#define SANDBOX_ID_MAX   (NODE_NAME_MAX + SANDBOX_ID_LEN)

// Return whether this is a node's name: 1 to NODE_NAME_MAX of SANDBOX_ID_CHARS.
bool node_name_is_valid(const char *name);

// Make a new id of this node (NULL: without a name). Nobody can guess it.
void sandbox_id_make(char out[SANDBOX_ID_MAX + 1], const char *node);

// Return the length of the sandbox id that `text` begins with, up to the end of the text or a "-",
// after which a client's id may follow. 0: it begins with none.
size_t sandbox_id_len(const char *text);
bool sandbox_id_is_valid(const char *text); // the whole text is a sandbox id

// Return the length of the node's name at the begin of a sandbox id; 0: it has none.
size_t sandbox_id_node_len(const char *id);
// Return whether the id was made by another node than `node` (NULL: one without a name). An id
// without a node's name may be of any node, so the answer is false.
bool sandbox_id_is_foreign(const char *id, const char *node);
