// SPDX-License-Identifier: Apache-2.0
// The name of a server as a client says it, in the form in which the policy has it.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/net_rule.h"

struct server_name {
    char text[NET_NAME_MAX + 1]; // lower case, without the root's dot; "" for none
};

// Letters, digits, hyphens and underscores between dots; a dot at the end is taken off. An IPv4
// address has that form too and no rule for names is ever about one. False for anything else.
bool server_name_set(struct server_name *n, const void *bytes, size_t len);
