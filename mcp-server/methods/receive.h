// SPDX-License-Identifier: Apache-2.0
// Messages of a peer: each request becomes an exchange, and goes to its method.
#pragma once
#include <stddef.h>

#include "mcp-server/protocol/session.h"

// Take one message from the transport. `data` NULL: the message was too long. outlet_end(reply) is
// called once, now or later.
void receive_message(struct session *s, struct outlet *reply, const char *data, size_t len);
// The same for a parsed message (borrowed).
void receive_json(struct session *s, struct outlet *reply, json_t *value);
// The same for a request that rpc_read has read and whose `_meta` is valid: `era` is the result of
// era_claim.
void receive_modern(struct session *s, struct outlet *reply, const struct rpc_message *m,
                    const struct era *era);
