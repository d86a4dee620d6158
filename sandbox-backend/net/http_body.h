// SPDX-License-Identifier: Apache-2.0
// The bodies of HTTP messages: a sender, which sends a body in chunks or plain; and trailers, the
// fields after the last chunk (RFC 9112, 7.1.2), which are received and sent.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/net/http.h"
#include "sandbox-backend/net/stream_out.h"

struct http_trailers {
    struct buf text;          // names and values in turn, each ended by NUL
    size_t parts;             // count of names and values in it
    struct http_header *list; // owned; valid after http_trailers_resolve
    size_t count;
};

void http_trailers_clear(struct http_trailers *t);
// Add more of the current part.
void http_trailers_add(struct http_trailers *t, const char *at, size_t len);
void http_trailers_end_part(struct http_trailers *t);
// Make the list. Return false if a field has no name or contains a line break, or if there are more
// than HTTP_HEADERS_MAX fields.
bool http_trailers_resolve(struct http_trailers *t);

// Append a field if it may be sent as a trailer: it must not frame, route or describe the message,
// or belong to the connection (RFC 9110, 6.5.1).
void http_trailers_append(struct buf *out, const char *name, const char *value);

// ---- the sender of the body of a request (http_conn.c) or an answer (http_response.c): in chunks
// or plain, with small pieces gathered. The caller counts a declared length and handles
// back-pressure.

struct http_sender {
    bool chunked;
    struct buf trailers; // owned: lines that follow the last chunk
};

// Send a piece of the body, which must not be empty. Return 0 when it was sent or waits in `out`, 1
// when it was gathered and the caller must flush `out` on the next turn of the loop, or the
// negative libuv error of a broken stream.
int http_sender_write(struct http_sender *s, struct stream_out *out, const void *data, size_t len);
// Add the body's end to `out`, which the caller flushes.
void http_sender_end(struct http_sender *s, struct stream_out *out);
