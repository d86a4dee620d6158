// SPDX-License-Identifier: Apache-2.0
// A connection given to cubby-egress, which puts secrets into requests (egress.h has the contract).
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/net_rule.h"

// Sends the guest's end `fd`, which is closed here in any case. NULL, or why it could not be given:
// then the guest's connection has to be reset. Never waits.
const char *handover_send(int egress_fd, int fd, const struct endpoint *to, const char *name,
                          bool is_tls);
