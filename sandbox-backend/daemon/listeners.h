// SPDX-License-Identifier: Apache-2.0
// The listening sockets of the daemon: <home>/cubbyd.sock, and a TCP address if one was given.
// While the daemon listens on TCP, <home>/cubbyd.url holds the URL and a newline, such as
// "http://127.0.0.1:43211". It is needed because port 0 means any free port.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

#define LISTENERS_URL_FILE "cubbyd.url"

struct listeners_opts {
    const char *listen;             // "127.0.0.1:3000"; NULL: the unix socket alone
    const char *tls_cert, *tls_key; // for TCP; both or neither
    bool allow_plaintext;           // TCP beyond loopback without TLS
};

struct listeners {
    struct http_server *local, *tcp; // tcp may be NULL
    struct tls *tls;                 // owned
    char *url_file;                  // owned; NULL without TCP
    char *url;                       // owned; NULL without TCP
};

// Check that the options make sense and are safe, before anything is bound.
int listeners_check(const struct listeners_opts *opts, struct err *e);

// Return 0 or -1. After -1, listeners_close closes what was opened.
int listeners_open(struct listeners *l, uv_loop_t *loop, const struct listeners_opts *opts,
                   const char *home, http_request_cb on_request, void *ctx, struct err *e);
void listeners_close(struct listeners *l); // stop listening, and abort every connection; call once
void listeners_fini(struct listeners *l);  // after the loop has ended
