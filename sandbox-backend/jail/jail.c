// SPDX-License-Identifier: Apache-2.0
// A jail around one process, as the daemon asks for it.
#include "sandbox-backend/jail/jail.h"

#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define OWN_ARGS_MAX 20

unsigned jail_walls_of(enum jail_kind kind)
{
    return kind == JAIL_NETWORK ? WALLS_ALL & ~WALL_BIT(WALL_NETWORK) : WALLS_ALL;
}

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
    out[n++] = xstrdup(spec->kind == JAIL_VMM ? "vmm" : "network");
    out[n++] = xstrdup("--walls");
    out[n++] = walls_list(spec->walls & jail_walls_of(spec->kind), ",");
    if (spec->resolv_conf) {
        out[n++] = xstrdup("--resolv-conf");
        out[n++] = xstrdup(spec->resolv_conf);
    }
    if (spec->kvm)
        out[n++] = xstrdup("--kvm");
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
