// SPDX-License-Identifier: Apache-2.0
// A WebSocket (RFC 6455) on an upgraded request. wslay does the framing.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/net/http_server.h"

#define WEB_SOCKET_PROTOCOL    "cubby"
#define WEB_SOCKET_MESSAGE_MAX 65536 // bytes of a message that the page sends

enum web_socket_code {
    WEB_SOCKET_DONE = 1000,
    WEB_SOCKET_LEAVING = 1001,
    WEB_SOCKET_UNACCEPTABLE = 1008,
};

struct web_socket;
struct web_socket_events {
    void (*on_message)(const char *data, size_t len, void *ctx); // a text or binary message
    void (*on_drain)(void *ctx);                                 // the queue has room again
    void (*on_close)(void *ctx); // the peer has gone; last. Not after web_socket_close
};

// Answer a request for a WebSocket. NULL after a 400 or 426, if it is none.
struct web_socket *web_socket_accept(struct http_request *req,
                                     const struct web_socket_events *events, void *ctx);
// Send a message. False: more than LIMIT_STREAM_QUEUE_BYTES are unsent; stop until on_drain.
bool web_socket_send(struct web_socket *ws, bool is_text, const void *data, size_t len);
bool web_socket_is_full(const struct web_socket *ws);
// Send what is queued, and end the connection. `ws` is freed.
void web_socket_close(struct web_socket *ws, enum web_socket_code code);
