// SPDX-License-Identifier: Apache-2.0
// What a transport is to the rest: messages come in, each with the way back that its answer takes.
// stdio has one way back for all; over HTTP each POST has its own.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

// A way back, for what one message comes to. Over stdio it is the same for all messages; over HTTP
// each POST has its own, which `end` closes.
struct outlet {
    // An answer, or a notification or request that belongs to it. Encodes at once and keeps
    // nothing of `message` (borrowed).
    void (*send)(struct outlet *o, const json_t *message);
    // Unsent bytes wait: leave out what can be left out.
    bool (*is_busy)(struct outlet *o);
    // Nothing more comes for this message: it was answered, wants no answer, or was cancelled.
    // Exactly once for each message that was received, and `o` is not used after it. NULL: the
    // outlet does not care.
    void (*end)(struct outlet *o);
    // Gives up the connection, not the message: the peer comes back for the rest, after retry_ms
    // (MCP 2025-11-25, basic/transports: polling). NULL, or a peer that cannot: nothing happens.
    void (*let_go)(struct outlet *o, int retry_ms);
    bool is_one_message; // it ends with its message (HTTP), and is not shared with others (stdio)
};
void outlet_end(struct outlet *o);

struct transport_events {
    // One message, not NUL-terminated, borrowed for the call. `data` NULL: it was longer than the
    // transport takes and is gone.
    void (*on_message)(struct outlet *reply, const char *data, size_t len, void *ctx);
    // The peer is gone; no more messages come, and what is sent goes nowhere. Once.
    void (*on_eof)(void *ctx);
};

// ---- stdio: one message a line (MCP, basic/transports). Takes both descriptors. Reading stops
// while the peer does not read what was sent.
struct transport_stdio;
struct transport_stdio *transport_stdio_open(uv_loop_t *loop, int in, int out,
                                             const struct transport_events *events, void *ctx,
                                             struct err *e);
struct outlet *transport_stdio_outlet(struct transport_stdio *t);
// Stops reading at once, closes when all that was sent is written; frees itself.
void transport_stdio_close(struct transport_stdio *t);
