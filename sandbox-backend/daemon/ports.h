// SPDX-License-Identifier: Apache-2.0
// The ports that a sandbox exposes: each of them a port of the host that leads to one of the guest.
//
// Theory of operation. POST /sandboxes/{id}/ports opens a listener (ports_place.h says where) and
// answers with its URL. What connects there is
//  - http: read as HTTP/1.1, checked (ports_http.c: its Host, who may open a WebSocket, the access
//    token), and passed on as every request for a port of a sandbox is (proxy_stream.h): streams
//    both ways, WebSocket, the guest's loopback, waking. Or
//  - tcp: passed on byte by byte (ports_tcp.c). There is no token then, so only on loopback, and
//    what begins as a browser's request does is refused, as no Host could be checked.
// A listener is there for as long as the sandbox, paused and hibernated too, and the record has it:
// the next daemon opens it again, with the same port of the host if it can have that. Forks and
// snapshots have none of it.
//
// The API, an extension of E2B's:
//   POST   /sandboxes/{id}/ports  {"port":8000, "hostPort":0, "protocol":"http", "token":false,
//          "wait":0}. hostPort 0: one that the kernel chooses; token: an access token is asked for;
//          wait: so many seconds for something to listen on the guest's port. 201, or 200 when it
//          was exposed so before:
//          {"port", "hostPort", "protocol", "url", "browserUrl", "token"}. url is for programs;
//          browserUrl (of http) for people, with the token in it; token null: none.
//          504 "port_closed": nothing listened in that time, and nothing was exposed; 409
//          "port_exposed": it is exposed otherwise; 409 "host_port_taken"; 429: a limit.
//   GET    /sandboxes/{id}/ports         those that are exposed, each as above, by port
//   DELETE /sandboxes/{id}/ports?port=N  204; without port: all of them. 404: N is not exposed
//
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

#define PORTS_MAX            32   // of one sandbox
#define PORTS_ALL_MAX        2048 // of one daemon
#define PORT_CONNECTIONS_MAX 256  // of one port, at once
#define PORT_WAIT_MAX_S      300
#define PORT_HOST_MIN        1024 // lower ones are the host's own

enum port_protocol { PORT_HTTP, PORT_TCP };

LIST_HEAD(ports, port); // of one sandbox, by number

struct port_want {
    int number;    // the guest's
    int host_port; // 0: any
    enum port_protocol protocol;
    const char *token; // NULL: none
};

// ERR_INVALID: it cannot be exposed so, whatever else is. ERR_LIMIT: there is no room for it.
int ports_check(const struct sandbox *sb, const struct port_want *want, struct err *e);
// Opens one that ports_check let pass and that is not exposed yet. NULL with `e`; ERR_EXISTS: the
// port of the host is taken.
struct port *ports_open(struct sandbox *sb, const struct port_want *want, struct err *e);
// Nothing connects any more, and what has is cut. Asynchronous: it holds the sandbox (ending.h).
void ports_close(struct port *port);
void ports_close_all(struct sandbox *sb);
// Cuts what is connected by raw TCP, and ends waits; the listeners stay.
void ports_cut(struct sandbox *sb);

struct port *ports_find(const struct sandbox *sb, int number); // NULL: it is not exposed
// Whether it is exposed in the way that `want` says; a host_port of 0 is any.
bool ports_is_as(const struct port *port, const struct port_want *want);
// A new token where one is to be made; new string.
char *ports_new_token(void);
// Whether a port of this sandbox must have a token.
bool ports_need_token(const struct sandbox *sb);

json_t *ports_view(const struct port *port); // as the API shows it
json_t *ports_view_all(const struct sandbox *sb);
// For sandbox.json. What was read is opened by ports_reopen, once the daemon serves.
json_t *ports_to_json(const struct sandbox *sb);
int ports_from_json(struct sandbox *sb, const json_t *list, struct err *e);
void ports_reopen(struct sandbox *sb);

// ---- for the proxy (proxy_stream.c): a request that came to an exposed port
// Takes out of a head what is not the guest's: the token, wherever it is, and the cookies that are
// other servers'.
void ports_edit_head(const struct port *port, struct http_request *req, struct proxy_head *head);
// Whether the guest's cookies may be set where `req` came from.
bool ports_take_cookies(const struct port *port, const struct http_request *req);
