// SPDX-License-Identifier: Apache-2.0
// The walls of a jail by name.
#include "sandbox-backend/jail/walls.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"

static const struct {
    const char *name, *what;
} WALLS[WALL_COUNT] = {
#define X(name, word, what) [WALL_##name] = {word, what},
    WALL_MAP(X)
#undef X
};

const char *wall_name(enum wall wall)
{
    return WALLS[wall].name;
}

const char *wall_what(enum wall wall)
{
    return WALLS[wall].what;
}

int wall_of(const char *name)
{
    for (int i = 0; i < WALL_COUNT; i++)
        if (strcmp(WALLS[i].name, name) == 0)
            return i;
    return -1;
}

bool walls_parse(const char *list, unsigned *out)
{
    char *copy auto_free = xstrdup(list);
    *out = 0;
    for (char *rest = copy, *word; (word = strsep(&rest, ","));) {
        int wall = *word ? wall_of(word) : -1;
        if (wall < 0 && *word)
            return false;
        *out |= *word ? WALL_BIT(wall) : 0;
    }
    return true;
}

char *walls_list(unsigned walls, const char *between)
{
    struct buf out = BUF_INIT;
    for (int i = 0; i < WALL_COUNT; i++)
        if (walls & WALL_BIT(i))
            buf_printf(&out, "%s%s", out.len ? between : "", WALLS[i].name);
    return out.data ? buf_take(&out) : xstrdup("");
}
