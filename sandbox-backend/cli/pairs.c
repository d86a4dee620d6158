// SPDX-License-Identifier: Apache-2.0
// What options were given more than once, as JSON.
#include "sandbox-backend/cli/pairs.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"

int pairs_parse(const struct opt_list *list, const char *option, json_t **out, struct err *e)
{
    *out = NULL;
    if (!list->count)
        return 0;
    json_t *object = json_object();
    for (int i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i]) {
            err_set(e, ERR_INVALID, "%s takes NAME=VALUE, not \"%.80s\"", option, list->items[i]);
            break;
        }
        char *name auto_free = xstrndup(list->items[i], (size_t)(equals - list->items[i]));
        if (json_object_set_new(object, name, json_string(equals + 1)) < 0)
            err_set(e, ERR_INVALID, "%s takes UTF-8", option);
    }
    if (err_is(e)) {
        json_decref(object);
        return -1;
    }
    *out = object;
    return 0;
}

json_t *names_parse(const struct opt_list *list, const char *option, struct err *e)
{
    json_t *names = json_array();
    for (int i = 0; i < list->count; i++)
        if (json_array_append_new(names, json_string(list->items[i])) < 0)
            err_set(e, ERR_INVALID, "%s takes UTF-8", option);
    if (err_is(e))
        json_decref(steal(&names));
    return names;
}
