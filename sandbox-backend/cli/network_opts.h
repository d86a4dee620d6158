// SPDX-License-Identifier: Apache-2.0
// --network, --allow and --deny: the policy of a sandbox's network.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

struct network_opts {
    const char *what; // a mode or a file; borrowed
    struct opt_list allow, deny;
};
#define NETWORK_OPT(type, value, name, arg, help)      \
    {                                                  \
        name, NULL, type, value, arg, help, 0, 0, NULL \
    }
#define NETWORK_OPTS(o)                                                     \
    NETWORK_OPT(OPT_STRING, &(o)->what, "network", "WHAT",                  \
                "none, public, allow, or a file with the policy as JSON"),  \
        NETWORK_OPT(OPT_LIST, &(o)->allow, "allow", "ENTRY",                \
                    "it may open this, and nothing else; may be repeated"), \
        NETWORK_OPT(OPT_LIST, &(o)->deny, "deny", "ENTRY",                  \
                    "it may not open this, whatever is allowed; may be repeated")

// New reference; NULL in *out when none of them was given.
int network_opts_policy(const struct network_opts *o, json_t **out, struct err *e);
