// SPDX-License-Identifier: Apache-2.0
// What is to be sent: an address and headers, filled in by the dialect and by the operation.
// For client/ only.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/net/http.h"

#define REQUEST_HEADERS_MAX 16

struct request {
    char *url;                        // owned
    const char *unix_socket;          // borrowed from the client; NULL for TCP
    const char *connect_to, *ca_file; // the same; NULL for none, see http_client.h
    bool is_direct; // the URL is the sandbox's own address: nothing stands between
    struct http_header headers[REQUEST_HEADERS_MAX]; // names borrowed, values owned
    size_t header_count;
    const char *bad_header; // name of one whose value cannot be sent; the request then fails
};

// `name` is a literal. A value with a control character is not added but noted in bad_header.
void request_header(struct request *r, const char *name, const char *value);
void request_fini(struct request *r); // empties it
