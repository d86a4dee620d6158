// SPDX-License-Identifier: Apache-2.0
// resources/subscribe and resources/unsubscribe of the handshake era, subscriptions/listen of the
// modern one.
#include "mcp-server/protocol/protocol.h"
#include "mcp-server/protocol/subscriber.h"

static const char *uri_of(struct exchange *x)
{
    const char *uri = json_string_value(json_object_get(x->params, "uri"));
    if (!uri)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "params.uri must be a string");
    return uri;
}

void method_resources_subscribe(struct exchange *x)
{
    const char *uri = uri_of(x);
    if (uri)
        subscriber_add(x, uri);
}

void method_resources_unsubscribe(struct exchange *x)
{
    const char *uri = uri_of(x);
    if (uri)
        subscriber_remove(x, uri);
}

static bool are_strings(const json_t *list)
{
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one)
    {
        if (!json_is_string(one))
            return false;
    }
    return json_is_array(list);
}

static const char *problem_of(const json_t *wanted)
{
    static const char *const FLAGS[] = {"toolsListChanged", "promptsListChanged",
                                        "resourcesListChanged"};
    if (!json_is_object(wanted))
        return "params.notifications must be an object";
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++) {
        const json_t *flag = json_object_get(wanted, FLAGS[i]);
        if (flag && !json_is_boolean(flag))
            return "toolsListChanged, promptsListChanged and resourcesListChanged must be true or "
                   "false";
    }
    const json_t *uris = json_object_get(wanted, "resourceSubscriptions");
    return uris && !are_strings(uris) ? "resourceSubscriptions must be an array of strings" : NULL;
}

void method_subscriptions_listen(struct exchange *x)
{
    const json_t *wanted = json_object_get(x->params, "notifications");
    const char *problem = problem_of(wanted);
    if (problem)
        exchange_error(x, RPC_INVALID_PARAMS, NULL, "%s", problem);
    else
        subscriber_listen(x, wanted);
}
