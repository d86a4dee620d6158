// SPDX-License-Identifier: Apache-2.0
// Files of sandboxes as resources: SANDBOX_FILES of resources.h, with one source file for each
// operation. Each operation checks that the sandbox belongs to its caller. For a sandbox of another
// caller, the answer is that there is none.
#pragma once
#include <jansson.h>

#include "mcp-server/resources/completion.h"
#include "mcp-server/resources/resources.h"
#include "mcp-server/resources/subscription.h"
#include "mcp-server/text/resource_uri.h"
#include "mcp-server/tools/call/tools.h"

#define SANDBOX_FILE_BYTES_MAX (4 * 1024 * 1024) // largest resource
#define SANDBOX_DIR_SHOWN_MAX  1000              // entries

void sandbox_list(struct resource_listing *l);
void sandbox_read(struct exchange *x, const char *uri);
void sandbox_watch(struct subscription *s);
void sandbox_unwatch(struct subscription *s);
void sandbox_complete(struct completion *c);
void sandbox_complete_id(struct completion *c); // also for prompts with a sandbox_id

// The same as resource_uri_parse, with ERR_NOT_FOUND for an impossible sandbox id.
int sandbox_files_parse(const struct context *cx, const char *uri, struct resource_uri *out,
                        struct err *e);
// List the caller's sandboxes as client_list does. NULL: the daemon does not run, and is not
// started for this; `cb` was called, with NULL for both or with an error.
struct client_op *sandbox_files_all(struct exchange *x, client_json_cb cb, void *ctx);
// List the entries of a directory: filesystem.Filesystem/ListDir.
struct client_op *sandbox_files_entries(struct client *client, const struct resource_uri *at,
                                        client_json_cb cb, void *ctx);
