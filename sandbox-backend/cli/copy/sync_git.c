// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/sync_git.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct sides {
    const struct listing *host, *guest;
};

// `above` ends with a slash, or is empty.
static bool has(const struct sides *s, const char *above, const char *name)
{
    char *path auto_free = str_printf("%s%s", above, name);
    return listing_find(s->host, path) || listing_find(s->guest, path);
}

static int find_in(struct listing *found, const struct sides *s, const struct listing *l,
                   struct err *e)
{
    for (size_t i = 0; i < l->count; i++) {
        const char *path = l->entries[i].path;
        if (!str_eq(str_base(path), "HEAD"))
            continue;
        size_t len = (size_t)(str_base(path) - path);
        char *above auto_free = xstrndup(path, len);
        if (!has(s, above, "commondir") && !(has(s, above, "objects") && has(s, above, "refs")))
            continue;
        struct entry dir = {.type = 'd', .path = xstrndup(path, len ? len - 1 : 0)};
        if (listing_add(found, dir, e) < 0)
            return -1;
    }
    return 0;
}

int sync_git_find(struct listing *found, const struct listing *host, const struct listing *guest,
                  struct err *e)
{
    const struct sides s = {.host = host, .guest = guest};
    int result = find_in(found, &s, host, e) < 0 || find_in(found, &s, guest, e) < 0 ? -1 : 0;
    listing_sort(found);
    return result;
}

const char *sync_git_repository(const struct listing *found, const char *path)
{
    const struct entry *top = listing_find(found, "");
    char *above auto_free = xstrdup(path);
    for (char *slash = strchr(above, '/'); slash && !top; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        top = listing_find(found, above);
        *slash = '/';
    }
    return top ? top->path : NULL;
}
