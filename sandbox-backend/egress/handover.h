// SPDX-License-Identifier: Apache-2.0
// Receives the connections that netd hands over (egress.h), one message each.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/egress/tunnel.h"

enum handover {
    HANDOVER_NONE, // no message waits
    HANDOVER_ONE,  // `*fd` belongs to the caller
    HANDOVER_BAD,  // a malformed message, which was dropped; `e` has the reason
    HANDOVER_OVER, // netd has closed its end: no message will come any more
};

// Receive one message. `target` borrows from `*json`, which the caller frees (NULL unless ONE).
enum handover handover_receive(int socket, struct tunnel_target *target, json_t **json, int *fd,
                               struct err *e);
// Parse a message. `target` borrows from `json`.
int handover_parse(const json_t *json, struct tunnel_target *target, struct err *e);
