// SPDX-License-Identifier: Apache-2.0
// An exposed port, as its three files share it: ports.c opens and closes it, ports_http.c serves
// HTTP, and ports_tcp.c raw TCP.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <uv.h>

#include "sandbox-backend/daemon/proxy/ports.h"
#include "sandbox-backend/net/stream_join.h"

#define PORTS_TOKEN_QUERY  "cubby_token"
#define PORTS_TOKEN_HEADER "X-Access-Token"
#define PORTS_COOKIE       "cubby_port_" // followed by the port of the host

struct port {
    LIST_ENTRY(port) link;      // in sandbox.ports, until it is being closed
    struct sandbox *sb;         // borrowed; held while the port is open
    struct port_want want;      // the token is owned; host_port is the real one
    struct http_server *server; // of PORT_HTTP; NULL while it is not open
    struct port_tcp *tcp;       // of PORT_TCP; NULL while it is not open
};

// Read an IP address. 0, or a negative libuv error.
int ports__address(const char *ip, int port, struct sockaddr_storage *out);
void ports__closed(void *port); // everything of the port is closed

// ports_http.c
void ports__on_request(struct http_request *req, void *ctx);

// ports_tcp.c: calls ports__closed once everything is closed. NULL with `e`: nothing is left open.
struct port_tcp *ports_tcp_open(struct port *port, struct err *e);
int ports_tcp_port(const struct port_tcp *tcp); // the port of the host
void ports_tcp_cut(struct port_tcp *tcp);       // cut its connections
void ports_tcp_close(struct port_tcp *tcp);     // close the listener and its connections
// Return whether these are the first bytes of an HTTP request, as a browser sends it.
bool ports__is_http(const char *data, size_t len);
// Refuse what a browser may take for an HTTP answer, in the first bytes that a guest sends. Wait if
// they end with a part of it.
enum stream_join_verdict ports__judge_early(const char *data, size_t len);

// ---- ports_http.c: the rules for Host, Origin and access token, whose reasons are there. Pure.

// The names of an exposed port.
struct ports_names {
    int port;           // the guest's
    const char *id;     // of the sandbox
    const char *host;   // --ports-host, or NULL
    const char *domain; // <port>-<id>.<domain> is a name as well; or NULL
};

enum ports_host {
    PORTS_HOST_FOREIGN, // a name that is not ours
    PORTS_HOST_SHARED,  // an address or localhost, which other servers have too
    PORTS_HOST_OWN,     // a name of this port alone
};
// `host` is as in the header, with or without a port.
enum ports_host ports_http_host(const char *host, const struct ports_names *names);

// Return whether a page of this origin may open a WebSocket. Browsers let every page open one, so
// the proxy decides: only a page of the same host name, of loopback, or of another port of the same
// sandbox may.
bool ports_http_origin(const char *origin, const char *host, const struct ports_names *names);

// Take the access token out of a target. Return the target without it, and the token in *token,
// both new strings; NULL for both when there is none.
char *ports_http_take_token(const char *target, char **token);

// Return whether a Cookie header holds `token` for this port of the host.
bool ports_http_cookie_has(const char *cookies, int host_port, const char *token);
// Return the cookies for the guest, without the tokens of any port: a new string, or NULL when none
// is left.
char *ports_http_cookie_rest(const char *cookies);
