// SPDX-License-Identifier: Apache-2.0
// The configuration of HAProxy for a fleet.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/nodes_file.h"

struct fleet_config {
    const char *listen;   // where the proxy listens
    const char *cert;     // its certificate and key; NULL: it speaks HTTP
    const char *ca;       // authorities of the nodes; NULL: the system's
    bool allow_plaintext; // listen beyond loopback without TLS
    struct nodes nodes;
};

void fleet_config_write(const struct fleet_config *c, struct buf *out);
