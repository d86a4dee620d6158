// SPDX-License-Identifier: Apache-2.0
// Answers that are the sum of all nodes of a fleet. Without peers they are this node's.
#pragma once
#include <jansson.h>

#include "sandbox-backend/daemon/api/api_list.h"

struct store;

// A list whose entries have a time and an id. `page` says the order; its limit is INT64_MAX if
// there are no pages.
struct api_merged_list {
    const char *id, *time; // names of members; static
    struct page page;
    bool more;       // this node has further entries
    int64_t running; // X-Total-Running; -1: no such header
};
// Answer with a list (taken), whose entries are in the order of the page.
void api_merge_list(const struct store *store, struct http_request *req, json_t *list,
                    const struct api_merged_list *how);
// Answer with an array (taken) that has one entry for each value of the member `id`.
void api_merge_named(const struct store *store, struct http_request *req, json_t *list,
                     const char *id);
// Answer with an object (taken) whose member `name` is an object or an array of sandboxes.
void api_merge_member(const struct store *store, struct http_request *req, json_t *object,
                      const char *name);
