// SPDX-License-Identifier: Apache-2.0
// The head of one HTTP/1 request (RFC 9112): its host, and where it ends.
//
// This parser does not serve requests. It must never find another host, or another end of the body,
// than a server would find. So it accepts only unambiguous heads and refuses the rest: bare CR or
// LF, folded lines, a space before a colon, control characters, a second Host, two lengths, a
// transfer coding other than "chunked", a target whose host is not Host's.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/netd/policy/policy.h"

#define HTTP_HEAD_MAX 16384

enum http_head_state {
    HTTP_HEAD_MORE,  // incomplete
    HTTP_HEAD_OTHER, // no server would take it for HTTP/1
    HTTP_HEAD_BAD,   // see `why`
    HTTP_HEAD_DONE,
};

struct http_head {
    const char *why;
    struct server_name host; // without its port; "" when the request has none
    bool is_connect;         // `host` is then the target's
    bool has_upgrade;        // to another protocol, which could not be judged
    size_t len;              // of the head, including its empty line
    bool is_chunked;
    uint64_t body_len; // when it is not chunked
};

// Parse the bytes at which a request begins.
enum http_head_state http_head_parse(struct http_head *h, const uint8_t *data, size_t len);

// ---- a watch: it finds each request in the bytes of an HTTP/1 client, so that every one can be
// judged
//
// It is as strict about framing as the parser of heads: chunk sizes are plain hexadecimal without
// extensions, and nothing follows the last chunk.

enum http_watch_state { // what comes next
    HTTP_WATCH_HEAD,
    HTTP_WATCH_BODY,      // `left` bytes, then a head
    HTTP_WATCH_SIZE,      // the line with a chunk's size
    HTTP_WATCH_CHUNK,     // `left` bytes of a chunk
    HTTP_WATCH_CHUNK_END, // the CRLF after it
    HTTP_WATCH_LAST,      // the CRLF after the last chunk, then a head
};

struct http_watch {
    enum http_watch_state state; // zero is the start
    uint64_t left;
};

enum http_watch_step {
    HTTP_WATCH_MORE, // more bytes are needed
    HTTP_WATCH_PASS, // *used bytes belong to the current request
    HTTP_WATCH_ASK,  // *used bytes are a head, to be judged by its host
    HTTP_WATCH_BAD,  // see head->why
};

// Judge the next bytes and consume *used of them.
enum http_watch_step http_watch_next(struct http_watch *w, struct http_head *head,
                                     const uint8_t *data, size_t len, size_t *used);
