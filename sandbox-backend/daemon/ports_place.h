// SPDX-License-Identifier: Apache-2.0
// Where the ports that sandboxes expose are reached on the host: one address for all of them, by
// default 127.0.0.1, and the names under which they are asked for.
//
// Beyond loopback every exposed port has an access token, and TLS is spoken (the certificate of
// --listen) unless the daemon is told that plain text will do.
#pragma once
#include <stdbool.h>
#include <sys/socket.h>

#include "sandbox-backend/base/err.h"

struct tls;

struct ports_opts {
    const char *address;            // an IP address; NULL: 127.0.0.1
    const char *host;               // name in URLs instead of the address; NULL
    const char *domain;             // <port>-<id>.<domain> leads there as well; NULL
    const char *tls_cert, *tls_key; // both or neither
    bool allow_plaintext;
};

struct ports_place {
    char *ip; // owned
    bool is_loopback;
    const char *host, *domain; // borrowed
    struct tls *tls;           // owned; NULL: plain text
};

// Whether what was chosen makes sense and is safe.
int ports_place_check(const struct ports_opts *opts, struct err *e);
// Of options that were checked.
int ports_place_open(struct ports_place *place, const struct ports_opts *opts, struct err *e);
void ports_place_fini(struct ports_place *place); // after the loop has ended

// "http://127.0.0.1:43211" (scheme NULL: http or https) of a port of the host; new string.
char *ports_place_url(const struct ports_place *place, const char *scheme, int host_port);
