// SPDX-License-Identifier: Apache-2.0
// Where the daemon listens: <home>/cubbyd.sock, and a TCP address when it was told one.
//
// The address that TCP really has (port 0: any) is in <home>/cubbyd.url for as long as it listens:
// "http://127.0.0.1:43211" and a newline.
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/net/http_server.h"

#define FRONT_URL_FILE "cubbyd.url"

struct front_opts {
    const char *home;
    const char *listen;             // "127.0.0.1:3000"; NULL: the unix socket alone
    const char *tls_cert, *tls_key; // for TCP; both or neither
    bool allow_plaintext;           // TCP beyond loopback without TLS
    unsigned max_connections;
};

struct front {
    struct http_server *local, *tcp; // tcp may be NULL
    struct tls *tls;                 // owned
    char *url_file;                  // owned; NULL without TCP
    char *url;                       // owned; NULL without TCP
};

// Whether what was chosen makes sense and is safe, before anything is bound.
int front_check(const struct front_opts *opts, struct err *e);

// -1 with `e`: what is open by then is closed by front_close, too.
int front_open(struct front *f, uv_loop_t *loop, const struct front_opts *opts,
               http_request_cb on_request, void *ctx, struct err *e);
void front_close(struct front *f); // stops listening and aborts every connection; once
void front_fini(struct front *f);  // after the loop has ended
