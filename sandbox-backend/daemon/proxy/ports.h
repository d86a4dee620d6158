// SPDX-License-Identifier: Apache-2.0
// Exposed ports: each is a port of the host that leads to a port of one sandbox's guest.
//
// Theory of operation. POST /sandboxes/{id}/ports opens a listener at the listen address (below)
// and answers with its URL. A connection to it is
//  - http: read as HTTP/1.1 and checked (ports_http.c: Host, WebSocket origin, access token), then
//    passed on like every request for a port of a sandbox (proxy_stream.h), with streams both ways,
//    WebSocket, the guest's loopback, and waking. Or
//  - tcp: passed on byte by byte (ports_tcp.c). That has no token, so it is for loopback only.
// A listener exists as long as its sandbox, also while that is paused. The record keeps it, so that
// the next daemon opens it again, with the same port of the host if possible. Forks and snapshots
// do not inherit exposed ports.
//
// The API is an extension of E2B's: cubbyd(1), "Exposed ports".
// Limits: below, PROXY_STREAMS_MAX for all connections of a sandbox, max_ports of an API key.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"

struct http_request;
struct port;
struct proxy_head;
struct sandbox;
struct store;
struct tls;

#define PORTS_MAX            32   // of one sandbox
#define PORTS_ALL_MAX        2048 // of one daemon
#define PORT_CONNECTIONS_MAX 256  // of one port, at once
#define PORT_WAIT_MAX_S      300
#define PORT_HOST_MIN        1024 // lower ones are the host's own

// ---- where exposed ports are reached on the host: one address for all of them, by default
// 127.0.0.1, and the names in their URLs. Beyond loopback every exposed port has an access token,
// and speaks TLS (with the certificate of --listen) unless plain text was allowed.
struct ports_opts {
    const char *address;            // an IP address; NULL: 127.0.0.1
    const char *host;               // name in URLs instead of the address; or NULL
    const char *domain;             // <port>-<id>.<domain> leads there as well; or NULL
    const char *tls_cert, *tls_key; // both or neither
    bool allow_plaintext;
};

struct ports_listen {
    char *ip; // owned
    bool is_loopback;
    const char *host, *domain; // borrowed
    struct tls *tls;           // owned; NULL: plain text
};

// Check that the options make sense and are safe.
int ports_listen_check(const struct ports_opts *opts, struct err *e);
// Open the listen address with options that ports_listen_check has accepted.
int ports_listen_open(struct ports_listen *listen, const struct ports_opts *opts, struct err *e);
void ports_listen_fini(struct ports_listen *listen); // after the loop has ended

// ---- one port
enum port_protocol { PORT_HTTP, PORT_TCP };

struct port_want {
    int number;    // the port of the guest
    int host_port; // 0: any
    enum port_protocol protocol;
    const char *token; // NULL: none
};

// Check that a port may be exposed in this way. ERR_INVALID: it never may. ERR_LIMIT: a limit is
// reached.
int ports_check(const struct sandbox *sb, const struct port_want *want, struct err *e);
// Open a port that passed ports_check and is not exposed yet. NULL with `e`; ERR_EXISTS: the port
// of the host is taken.
struct port *ports_open(struct sandbox *sb, const struct port_want *want, struct err *e);
// Stop listening, and cut all connections. Asynchronous: the port holds the sandbox (ending.h)
// until it is closed.
void ports_close(struct port *port);
void ports_close_all(struct sandbox *sb);
// Cut the connections of raw TCP; the listeners stay.
void ports_cut(struct sandbox *sb);

struct port *ports_find(const struct sandbox *sb, int number); // NULL: not exposed
// Return whether `port` is exposed with the protocol and host port of `want`, and has a token
// exactly if `want` has one. A host_port of 0 stands for any.
bool ports_is_as(const struct port *port, const struct port_want *want);
// Make an access token, a new string.
char *ports_new_token(void);
// Return whether an exposed port of this sandbox must have a token.
bool ports_need_token(const struct sandbox *sb);

json_t *ports_view(const struct port *port); // as the API shows it; a new reference
json_t *ports_view_all(const struct sandbox *sb);
// Convert the exposed ports to and from the record. Once the daemon serves, ports_reopen opens the
// ports that ports_from_json has read.
json_t *ports_to_json(const struct sandbox *sb);
int ports_from_json(struct sandbox *sb, const json_t *list, struct err *e);
void ports_reopen(struct sandbox *sb);

// ---- for the proxy (proxy_stream.c): a request that came to an exposed port
// Remove from a head what the guest must not see: the token in any part, and cookies of other
// servers.
void ports_edit_head(const struct port *port, struct http_request *req, struct proxy_head *head);
// Return whether the guest may set cookies under the name by which `req` came.
bool ports_take_cookies(const struct port *port, const struct http_request *req);
