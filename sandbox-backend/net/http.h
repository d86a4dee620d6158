// SPDX-License-Identifier: Apache-2.0
// The parts of HTTP/1.1 that client and server share: headers as they were received, in order (RFC
// 9110, 9112).
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define HTTP_HEADERS_MAX 100

struct http_header {
    const char *name;  // as received; compare with strcasecmp
    const char *value; // without surrounding white space
};

// Return whether a received name equals `name`; letter case does not matter.
bool http_name_is(const char *received, const char *name);

// Return whether `s` can be the name of a header (RFC 9110, 5.6.2).
bool http_is_token(const char *s);

// Return the value of the first header of that name, or NULL. Borrowed.
const char *http_header_get(const struct http_header *headers, size_t count, const char *name);

// Return whether a proxy must not pass `name` on (RFC 9110 section 7.6.1): Connection, Keep-Alive,
// Transfer-Encoding, Upgrade, TE, Proxy-*.
int http_header_is_hop_by_hop(const char *name);

const char *http_status_text(int status);
