// SPDX-License-Identifier: Apache-2.0
// The query of a list request: filters, order, page. Pure.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/net/http_server.h"

#define LIST_LIMIT_MAX 100

struct sandbox;

struct list_query {
    json_t *metadata;     // owned; what all must match, or NULL
    const char *template; // borrowed from the request, or NULL
    bool running, paused; // the states wanted
    bool ascending;       // by the time of creation; newest first otherwise
    int64_t after_ns;     // started later than this
    int64_t limit;
    // Where the page before ended: the next one begins behind (cursor_ns, cursor_id).
    bool has_cursor;
    int64_t cursor_ns;
    char cursor_id[SANDBOX_ID_LEN + 1];
};

// v1 knows only `metadata`, and no pages. ERR_INVALID names the parameter.
int list_query_parse(struct list_query *q, struct http_request *req, bool v2, struct err *e);
void list_query_fini(struct list_query *q);

bool list_query_matches(const struct list_query *q, const struct sandbox *sb);
// Whether `a` comes before `b`. The id decides between two of the same instant.
bool list_query_before(const struct list_query *q, const struct sandbox *a,
                       const struct sandbox *b);
// The token of a page that ended with `last`: new string.
char *list_query_token(const struct sandbox *last);

// "a%20b=c%26d" (already taken out of the query) as an object: unescaped as a whole, split at '&'
// and '=', each part unescaped again. New reference, or NULL with ERR_INVALID.
json_t *list_query_metadata(const char *text, struct err *e);
