// SPDX-License-Identifier: Apache-2.0
// Makes cubby-jail's command line, and names the walls.
#include "sandbox-backend/jail/jail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define OWN_ARGS_MAX 26

// Return the walls of a kind: a network process has no network namespace of its own.
static unsigned jail_walls_of(enum jail_kind kind)
{
    return kind == JAIL_NETWORK ? WALLS_ALL & ~WALL_BIT(WALL_NETWORK) : WALLS_ALL;
}

static const char *const KINDS[] = {
    [JAIL_VMM] = "vmm", [JAIL_NETWORK] = "network", [JAIL_FILES] = "files"};

static int count(const char *const *list)
{
    int n = 0;
    while (list && list[n])
        n++;
    return n;
}

char **jail_argv(const struct jail_spec *spec, const char *jail_program, const char *program,
                 char *const *argv)
{
    int files = count(spec->files), args = count((const char *const *)argv), n = 0;
    char **out = xcalloc((size_t)(OWN_ARGS_MAX + files + args), sizeof(char *));
    out[n++] = xstrdup(jail_program);
    out[n++] = xstrdup("--kind");
    out[n++] = xstrdup(KINDS[spec->kind]);
    out[n++] = xstrdup("--walls");
    out[n++] = walls_list(spec->walls & jail_walls_of(spec->kind), ",");
    if (spec->resolv_conf) {
        out[n++] = xstrdup("--resolv-conf");
        out[n++] = xstrdup(spec->resolv_conf);
    }
    if (spec->kvm)
        out[n++] = xstrdup("--kvm");
    if (spec->share) {
        out[n++] = xstrdup("--share");
        out[n++] = xstrdup(spec->share);
        out[n++] = xstrdup("--share-fd");
        out[n++] = str_printf("%d", spec->share_fd);
    }
    if (spec->share && spec->share_read_only)
        out[n++] = xstrdup("--share-read-only");
    if (spec->instrumented)
        out[n++] = xstrdup("--instrumented");
    if (spec->dies_with >= 0) {
        out[n++] = xstrdup("--dies-with-fd");
        out[n++] = str_printf("%d", spec->dies_with);
    }
    out[n++] = xstrdup("--file-count");
    out[n++] = str_printf("%d", files);
    out[n++] = xstrdup("--");
    for (int i = 0; i < files; i++)
        out[n++] = xstrdup(spec->files[i]);
    out[n++] = xstrdup(program);
    for (int i = 0; i < args; i++)
        out[n++] = xstrdup(argv[i]);
    return out;
}

void jail_argv_free(char **argv)
{
    for (char **item = argv; item && *item; item++)
        free(*item);
    free(argv);
}

// ---- the walls by name

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
