// SPDX-License-Identifier: Apache-2.0
// Parts of results, in the terms of one revision.
#pragma once
#include <jansson.h>

#include "mcp-server/protocol/era.h"

// Return name and version of this server; new references.
json_t *result_server_info(const struct era *era);
json_t *result_server_details(const struct era *era); // with description and icons, for people

// Return a content block of text; invalid UTF-8 is replaced. New reference.
json_t *result_text(const char *text);

// Return a content block in the terms of `era`: an unknown type becomes a text. New reference.
json_t *result_block(json_t *block, const struct era *era);

// For a modern era, mark a result as complete unless it has a type, and name this server in it.
// Takes and returns `result`.
json_t *result_stamp(json_t *result, const struct era *era);

// Remove from an entry of a list (a prompt, a resource, a template) what `era` does not know; takes
// and returns it.
json_t *result_item(json_t *item, const struct era *era);
