// SPDX-License-Identifier: Apache-2.0
// Connections as netd hands them over (egress.h): one message each.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/egress/tunnel.h"

enum handover {
    HANDOVER_NONE, // nothing waits
    HANDOVER_ONE,  // `*fd` is the caller's
    HANDOVER_BAD,  // one that was not as it should be, and has been dropped; `e` says why
    HANDOVER_OVER, // there will be no more
};

// Receives one. What `target` points to is in `*json`, which is the caller's (NULL unless ONE).
enum handover handover_receive(int socket, struct tunnel_target *target, json_t **json, int *fd,
                               struct err *e);
// The message itself. Borrows from `json`.
int handover_parse(const json_t *json, struct tunnel_target *target, struct err *e);
