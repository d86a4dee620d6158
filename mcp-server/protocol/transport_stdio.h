// SPDX-License-Identifier: Apache-2.0
// stdio: one message a line (MCP, basic/transports).
#pragma once
#include <stddef.h>
#include <uv.h>

#include "mcp-server/protocol/outlet.h"
#include "sandbox-backend/base/err.h"

struct transport_events {
    // A message came: not NUL-terminated, borrowed for the call. `data` NULL: the message exceeded
    // the transport's limit and was dropped.
    void (*on_message)(struct outlet *reply, const char *data, size_t len, void *ctx);
    // The peer has closed the connection. No more messages come, and nothing can be sent. Called
    // once.
    void (*on_eof)(void *ctx);
};

// Open the transport; takes both descriptors. Reading stops while the peer does not read what was
// sent.
struct transport_stdio;
struct transport_stdio *transport_stdio_open(uv_loop_t *loop, int in, int out,
                                             const struct transport_events *events, void *ctx,
                                             struct err *e);
struct outlet *transport_stdio_outlet(struct transport_stdio *t);
// Stop reading at once, close when everything sent has been written, and free the transport.
void transport_stdio_close(struct transport_stdio *t);
