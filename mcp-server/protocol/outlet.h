// SPDX-License-Identifier: Apache-2.0
// The outlet, through which messages go to the peer. Over stdio all messages share one outlet; over
// HTTP each POST has its own, which `end` closes.
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct outlet {
    // Send an answer, or a notification or request that belongs to it. Encodes at once and keeps
    // nothing of `message` (borrowed).
    void (*send)(struct outlet *o, const json_t *message);
    // Return whether unsent bytes are waiting; then optional messages are left out.
    bool (*is_busy)(struct outlet *o);
    // No more messages follow: the received message was answered, needs no answer, or was
    // cancelled. Called exactly once for each received message; `o` is not used after it. NULL:
    // nothing to do.
    void (*end)(struct outlet *o);
    // Close the connection but keep the message: the peer comes back for the rest after retry_ms
    // (MCP 2025-11-25, basic/transports: polling). NULL, or a peer that cannot: nothing happens.
    void (*let_go)(struct outlet *o, int retry_ms);
    bool is_one_message; // it belongs to one message (HTTP), not to all of a connection (stdio)
};

static inline void outlet_end(struct outlet *o)
{
    if (o->end)
        o->end(o);
}
