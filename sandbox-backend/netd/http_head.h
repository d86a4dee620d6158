// SPDX-License-Identifier: Apache-2.0
// The head of one HTTP/1 request (RFC 9112), as far as it says whom it is for and where it ends.
//
// Not a parser for serving: it must never see another host, or another end of the body, than any
// server may see. So it takes only what is written without a doubt, and refuses the rest: bare CR
// or LF, folded lines, a space before a colon, control characters, a second Host, two lengths, a
// transfer coding other than "chunked", a target whose host is not Host's.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/netd/server_name.h"

#define HTTP_HEAD_MAX 16384

enum http_head_state {
    HTTP_HEAD_MORE,  // not whole yet
    HTTP_HEAD_OTHER, // not HTTP/1, and no server takes it for that
    HTTP_HEAD_BAD,   // `why` says what is wrong
    HTTP_HEAD_DONE,
};

struct http_head {
    const char *why;
    struct server_name host; // without its port; "" when the request has none
    bool is_connect;         // the host is then the target's
    bool has_upgrade;        // to another protocol, in which nothing more would be seen
    size_t len;              // of the head, through its empty line
    bool is_chunked;
    uint64_t body_len; // when it is not chunked
};

// Looks at the bytes at which a request begins.
enum http_head_state http_head_parse(struct http_head *h, const uint8_t *data, size_t len);
