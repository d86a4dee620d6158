// SPDX-License-Identifier: Apache-2.0
// The fields behind the last chunk of a body (RFC 9112, 7.1.2), as they are received and sent.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http.h"

struct http_trailers {
    struct buf text;          // name and value of each, each ended by NUL
    size_t parts;             // names and values in it
    struct http_header *list; // owned; once resolved
    size_t count;
};

void http_trailers_clear(struct http_trailers *t);
void http_trailers_add(struct http_trailers *t, const char *at, size_t len); // more of this part
void http_trailers_end_part(struct http_trailers *t);
// Makes the list. False: one has no name, or a byte that would make another line of it; they are
// more than HTTP_HEADERS_MAX.
bool http_trailers_resolve(struct http_trailers *t);

// Appends what may be sent as a trailer: nothing that frames, routes or describes the message, or
// belongs to the connection (RFC 9110, 6.5.1).
void http_trailers_append(struct buf *out, const char *name, const char *value);
