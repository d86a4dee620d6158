// SPDX-License-Identifier: Apache-2.0
// --network, --allow and --deny.
#include "sandbox-backend/cli/network_opts.h"

#include "sandbox-backend/client/network_spec.h"

static json_t *list_of(const struct opt_list *list, struct err *e)
{
    json_t *all = json_array();
    for (int i = 0; i < list->count; i++)
        if (json_array_append_new(all, json_string(list->items[i])) < 0)
            err_set(e, ERR_INVALID, "an entry of the network policy is not UTF-8");
    return all;
}

int network_opts_policy(const struct network_opts *o, json_t **out, struct err *e)
{
    json_t *allow = list_of(&o->allow, e);
    json_t *deny = list_of(&o->deny, e);
    *out = NULL;
    int rc = err_is(e) ? -1 : network_spec(out, o->what, allow, deny, e);
    json_decref(allow);
    json_decref(deny);
    return rc;
}
