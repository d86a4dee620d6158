// SPDX-License-Identifier: Apache-2.0
#include "mcp-server/config/host_dirs.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/client/client.h"

static int find(struct host_dir *dir, const char *spec, enum host_dir_kind kind, struct err *e)
{
    char path[PATH_MAX];
    char *named auto_free = NULL;
    if (kind == HOST_DIR_MOUNTED &&
        client_mount_parse(spec, &named, &dir->target, &dir->read_only, e) < 0)
        return -1;
    if (kind == HOST_DIR_ALLOWED)
        named = client_mount_root(spec, &dir->read_only);
    if (kind == HOST_DIR_PROJECT)
        named = xstrdup(spec);
    if (!named)
        return err_set(e, ERR_NOT_FOUND, "there is no directory %.200s", spec);
    if (source_resolve(named, path, &dir->is, e) < 0)
        return -1;
    dir->path = xstrdup(path);
    return 0;
}

// Check the last one against those before it.
static int check_target(const struct host_dirs *dirs, struct err *e)
{
    for (int i = 0; i < dirs->count; i++)
        if (source_targets_apart(dirs->items[dirs->count].target, dirs->items[i].target, e) < 0)
            return -1;
    return 0;
}

int host_dirs_find(struct host_dirs *dirs, const struct opt_list *specs, enum host_dir_kind kind,
                   struct err *e)
{
    dirs->items = xcalloc((size_t)specs->count + 1, sizeof *dirs->items);
    for (; dirs->count < specs->count; dirs->count++) {
        struct err why = ERR_INIT;
        struct host_dir *dir = &dirs->items[dirs->count];
        if (find(dir, specs->items[dirs->count], kind, &why) == 0 &&
            (kind != HOST_DIR_MOUNTED || check_target(dirs, &why) == 0))
            continue;
        if (kind == HOST_DIR_PROJECT)
            continue;
        free(dir->path);
        free(dir->target);
        return err_set(e, why.code, "%s", why.msg);
    }
    return 0;
}

void host_dirs_fini(struct host_dirs *dirs)
{
    for (int i = 0; i < dirs->count; i++) {
        free(dirs->items[i].path);
        free(dirs->items[i].target);
    }
    free(dirs->items);
    *dirs = (struct host_dirs){0};
}

int host_dir_open(const struct host_dir *dir, struct err *e)
{
    return source_open(dir->path, &dir->is,
                       "if that is right, start cubby-mcp again, which then takes it", e);
}
