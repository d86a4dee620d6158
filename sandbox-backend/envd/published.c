// SPDX-License-Identifier: Apache-2.0
// What the guest's other programs may know of what /init has set.
#include "sandbox-backend/envd/published.h"

#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define FILE_MODE 0644

// Variables that have a file, and survive a replacement of the environment.
static const char *const OWN[] = {"E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID"};

static void write_environment(const char *dir, json_t *environment, struct err *e)
{
    char *path auto_free = str_printf("%s/environment.json", dir);
    char *text auto_free = json_to_string(environment);
    file_replace(path, text, strlen(text), FILE_MODE, e);
}

static void write_variable(const char *dir, const char *name, const char *value, struct err *e)
{
    char *path auto_free = str_printf("%s/.%s", dir, name);
    file_replace(path, value, strlen(value), FILE_MODE, e);
}

int published_write(const char *dir, const json_t *before, json_t *after, struct err *e)
{
    if (before && json_equal(before, after))
        return 0;
    write_environment(dir, after, e);
    for (size_t i = 0; i < ARRAY_LEN(OWN); i++) {
        const char *value = json_string_value(json_object_get(after, OWN[i]));
        const char *had = before ? json_string_value(json_object_get(before, OWN[i])) : NULL;
        if (value && !str_eq(value, had))
            write_variable(dir, OWN[i], value, e);
    }
    return err_is(e) ? -1 : 0;
}

void published_keep(const json_t *now, json_t *next)
{
    for (size_t i = 0; i < ARRAY_LEN(OWN); i++) {
        json_t *value = json_object_get(now, OWN[i]);
        if (value && !json_object_get(next, OWN[i]))
            json_object_set(next, OWN[i], value);
    }
}
