// SPDX-License-Identifier: Apache-2.0
// Members of a request that nobody knows, or that are a known name in another spelling.
#include "sandbox-backend/daemon/near_miss.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/str.h"

// The next character that counts: case, '_' and '-' are what differs between spellings.
static char next(const char **at)
{
    while (**at == '_' || **at == '-')
        (*at)++;
    return **at ? (char)tolower((unsigned char)*(*at)++) : '\0';
}

static bool is_alike(const char *a, const char *b)
{
    for (;;) {
        char left = next(&a);
        if (left != next(&b))
            return false;
        if (!left)
            return true;
    }
}

// null, {} and [] ask for nothing.
static bool asks(const json_t *value)
{
    if (json_is_object(value))
        return json_object_size(value) > 0;
    return json_is_array(value) ? json_array_size(value) > 0 : !json_is_null(value);
}

int near_miss_check(const json_t *object, const char *where, const char *const *known, size_t count,
                    struct err *e)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const char *meant = NULL;
        bool is_known = false;
        for (size_t i = 0; i < count; i++) {
            if (str_eq(name, known[i])) {
                meant = NULL;
                is_known = true;
                break;
            }
            if (is_alike(name, known[i]))
                meant = known[i];
        }
        if (meant)
            return err_set(e, ERR_INVALID, "%s%.80s is not known; it is spelt %s%s", where, name,
                           where, meant);
        if (!is_known && asks(value))
            return err_set(e, ERR_INVALID,
                           "%s%.80s is not known here, and is refused so that it is not ignored; "
                           "leave it out",
                           where, name);
    }
    return 0;
}
