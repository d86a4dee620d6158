// SPDX-License-Identifier: Apache-2.0
// Where each request begins in what an HTTP/1 client sends, so that every one can be judged.
//
// As strict as http_head.h about framing: chunk sizes are plain hexadecimal without extensions, and
// nothing follows the last chunk.
#pragma once
#include "sandbox-backend/netd/http_head.h"

enum http_watch_state { // what comes next
    HTTP_WATCH_HEAD,
    HTTP_WATCH_BODY,      // `left` bytes, then a head
    HTTP_WATCH_SIZE,      // a chunk's size in its line
    HTTP_WATCH_CHUNK,     // `left` bytes of a chunk
    HTTP_WATCH_CHUNK_END, // the CRLF behind it
    HTTP_WATCH_LAST,      // the CRLF behind the last chunk, then a head
};

struct http_watch {
    enum http_watch_state state; // zeroed is the start
    uint64_t left;
};

enum http_watch_step {
    HTTP_WATCH_MORE, // what is there cannot be judged yet
    HTTP_WATCH_PASS, // *used bytes belong to the request before
    HTTP_WATCH_ASK,  // *used bytes are a head: they may go if its host may be meant
    HTTP_WATCH_BAD,  // head->why
};

// Looks at the bytes that come next, and goes past *used of them.
enum http_watch_step http_watch_next(struct http_watch *w, struct http_head *head,
                                     const uint8_t *data, size_t len, size_t *used);
