// SPDX-License-Identifier: Apache-2.0
// --network, --allow and --deny.
#include "sandbox-backend/cli/network_opts.h"

#include "sandbox-backend/cli/pairs.h"
#include "sandbox-backend/client/network_spec.h"

int network_opts_policy(const struct network_opts *o, json_t **out, struct err *e)
{
    json_t *allow = names_parse(&o->allow, "--allow", e);
    json_t *deny = names_parse(&o->deny, "--deny", e);
    *out = NULL;
    int rc = err_is(e) ? -1 : network_spec(out, o->what, allow, deny, e);
    json_decref(allow);
    json_decref(deny);
    return rc;
}
