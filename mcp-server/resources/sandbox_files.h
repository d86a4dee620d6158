// SPDX-License-Identifier: Apache-2.0
// Files of sandboxes as resources: SANDBOX_FILES of resources.h, one operation a file. Each checks
// that the sandbox is its caller's, to whom all others do not exist.
#pragma once
#include <jansson.h>

#include "mcp-server/protocol/subscription.h"
#include "mcp-server/resources/completion.h"
#include "mcp-server/resources/resource_uri.h"
#include "mcp-server/resources/resources.h"
#include "mcp-server/tools/tools.h"

#define SANDBOX_FILE_BYTES_MAX (4 * 1024 * 1024) // that a resource may hold
#define SANDBOX_DIR_SHOWN_MAX  1000              // entries

void sandbox_list(struct resource_listing *l);
void sandbox_read(struct exchange *x, const char *uri);
void sandbox_watch(struct subscription *s);
void sandbox_unwatch(struct subscription *s);
void sandbox_complete(struct completion *c);
void sandbox_complete_id(struct completion *c); // for prompts too: an argument that is an id

// resource_uri_parse for a sandbox that may exist. ERR_INVALID, or ERR_NOT_FOUND for an id that
// cannot be one.
int sandbox_files_parse(const struct toolbox *t, const char *uri, struct resource_uri *out,
                        struct err *e);
// The caller's sandboxes as client_list gives them. NULL: none, for the daemon does not run and is
// not started for this; `cb` was called, with NULL for both, or with an error.
struct client_op *sandbox_files_all(struct exchange *x, client_json_cb cb, void *ctx);
// Entries of a directory: filesystem.Filesystem/ListDir.
struct client_op *sandbox_files_entries(struct client *client, const struct resource_uri *at,
                                        client_json_cb cb, void *ctx);
