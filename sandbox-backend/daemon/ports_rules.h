// SPDX-License-Identifier: Apache-2.0
// What of a request for an exposed port tells who asks: its Host, its Origin, its access token.
// Pure.
//
// A page on the internet can have its own name lead to this machine's loopback (DNS rebinding), and
// its scripts then read what answers to that name; so a name must be one of ours. An address can be
// no such name. Cookies know no port: what is said at 127.0.0.1 is told to every server there, so
// each exposed port has a name of its own besides (<port>-<id>.localhost, which leads nowhere but
// to loopback), and cookies only pass there.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define PORTS_TOKEN_QUERY  "cubby_token"
#define PORTS_TOKEN_HEADER "X-Access-Token"
#define PORTS_COOKIE       "cubby_port_" // and the host's port

// By which names an exposed port is asked for.
struct ports_names {
    int port;           // the guest's
    const char *id;     // of the sandbox
    const char *host;   // that the daemon was told to show; NULL
    const char *domain; // <port>-<id>.<domain> is one as well; NULL
};

enum ports_host {
    PORTS_HOST_FOREIGN, // somebody else's name
    PORTS_HOST_SHARED,  // an address or localhost, which others answer to as well
    PORTS_HOST_OWN,     // nobody else's
};
// `host` as the header has it, with or without a port.
enum ports_host ports_rules_host(const char *host, const struct ports_names *names);

// Whether a page of this origin may open a WebSocket, which a browser lets every page do: one of
// the same host, of this machine, or of another port of the same sandbox.
bool ports_rules_origin(const char *origin, const char *host, const struct ports_names *names);

// Takes the access token out of a target: new string without it, and *token, another; NULL, and no
// token, when it has none.
char *ports_rules_take_token(const char *target, char **token);

// Whether a Cookie header holds `token` as the one of this port of the host.
bool ports_rules_cookie_has(const char *cookies, int host_port, const char *token);
// What of it is the guest's: new string, NULL when nothing is. No port's token is any guest's.
char *ports_rules_cookie_rest(const char *cookies);

// Whether these are the first bytes of an HTTP request, as a browser would send it.
bool ports_rules_is_http(const char *data, size_t len);
