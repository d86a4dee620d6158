// SPDX-License-Identifier: Apache-2.0
// Sandboxes that were moved from this node to another one (docs/fleet.md): <home>/moved/<id> is a
// file that holds the other node's name. Such a file is what moves a sandbox: before it is written,
// the sandbox is this node's, and afterwards the other node's. It stays, because ids are used as
// long as their sandboxes live, and nobody tells this node when that ends.
#pragma once
#include "sandbox-backend/base/err.h"

struct store;

// Write the file, for a valid id. `cubby fleet drain` syncs it to the disk.
int moved_note(const struct store *store, const char *id, const char *node, struct err *e);
// Return the node that a sandbox was moved to, a new string; NULL: it was not moved. `id` is a
// caller's, "<id>-<client id>" as well.
char *moved_to(const struct store *store, const char *id);
// The sandbox has come back.
void moved_forget(const struct store *store, const char *id);
