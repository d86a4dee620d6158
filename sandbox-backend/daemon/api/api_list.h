// SPDX-License-Identifier: Apache-2.0
// The query of a list request: filters, order, page. Pure.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

#define PAGE_LIMIT_MAX 100
#define PAGE_ID_MAX    47 // characters; more than the id of a sandbox or a snapshot has

// A page of things that have a time and an id, which decides between equal times.
struct page {
    bool ascending; // the oldest first; else the newest
    int64_t limit;
    bool has_cursor; // the page begins after (cursor_ns, cursor_id), where the one before ended
    long long cursor_ns;
    char cursor_id[PAGE_ID_MAX + 1];
};
// Read `limit` and `nextToken`. ERR_INVALID names the parameter.
int page_parse(struct page *p, struct http_request *req, struct err *e);
// Return whether the page shows `a` before `b`.
bool page_is_before(const struct page *p, int64_t a_ns, const char *a_id, int64_t b_ns,
                    const char *b_id);
bool page_has_begun(const struct page *p, int64_t ns, const char *id); // it comes after the cursor
// Return the token of a page that ended with this thing, a new string.
char *page_token(int64_t ns, const char *id);
void page_tell_next(struct http_request *req, int64_t ns, const char *id); // in X-Next-Token

struct sandbox;

struct list_query {
    json_t *metadata;     // owned; that all must match, or NULL
    const char *template; // borrowed from the request, or NULL
    const char *name;     // borrowed; the same as the request has it
    bool running, paused; // the states wanted
    int64_t after_ns;     // only sandboxes started later
    struct page page;
};
bool list_query_matches(const struct list_query *q, const struct sandbox *sb);
// Return the value of the parameter `metadata` ("a%20b=c%26d") as an object: decode it as a whole,
// split it at '&' and '=', and decode each part again. New reference, or NULL with ERR_INVALID.
json_t *list_query_metadata(const char *text, struct err *e);
