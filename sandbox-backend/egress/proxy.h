// SPDX-License-Identifier: Apache-2.0
// The sandbox's upstream proxy (E2B's egressProxy): SOCKS5 (RFC 1928), with a user name and a
// password (RFC 1929) or without. Its client side here is pure: bytes in, bytes out.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define PROXY_TEXT_MAX 255 // bytes of the user name, and of the password

struct proxy {
    char *host;                // owned, as the next; a name or an address; NULL: there is no proxy
    char *username, *password; // NULL: none
    int port;
    bool special;        // the host may be a private address
    bool tls;            // SOCKS5 is spoken in TLS
    char *tls_name, *ca; // owned; the name in its certificate, and its authorities (PEM); NULL: the
                         // host, and those of hosts
};

// NULL or null stands for no proxy. The error never holds the password. Call proxy_fini in any
// case.
int proxy_from_json(struct proxy *p, const json_t *object, struct err *e);
void proxy_fini(struct proxy *p); // wipes the password

enum socks_state { SOCKS_METHOD, SOCKS_LOGIN, SOCKS_REPLY };
struct socks {
    const struct proxy *proxy; // borrowed
    const char *address;       // borrowed; the destination in digits
    int port;
    enum socks_state state;
};

enum socks_step { SOCKS_MORE, SOCKS_CONNECTED, SOCKS_REFUSED };

// Begin: append the greeting to `out`.
void socks_begin(struct socks *s, const struct proxy *p, const char *address, int port,
                 struct buf *out);
// Take the proxy's bytes from the front of `in`, and append what it gets next. Once
// SOCKS_CONNECTED, the rest of `in` is the destination's. SOCKS_REFUSED sets *why to a literal.
enum socks_step socks_take(struct socks *s, struct buf *in, struct buf *out, const char **why);
