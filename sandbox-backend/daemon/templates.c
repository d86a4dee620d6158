// SPDX-License-Identifier: Apache-2.0
// The templates of this home, as the API names them.
#include "sandbox-backend/daemon/templates.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/daemon/store.h"

#define NAME_CHARS   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
#define NAME_MAX_LEN 128

// Also what keeps a name from leading out of the directory: no slash, and no dot in front.
static bool is_name(const char *name)
{
    size_t n = strlen(name);
    return n && n <= NAME_MAX_LEN && name[0] != '.' && strspn(name, NAME_CHARS) == n;
}

static char *dir_of(const struct store *store, const char *name)
{
    return str_printf("%s/templates/%s", store->home, name);
}

static char *file_of(const struct store *store, const char *name)
{
    return str_printf("%s/templates/%s/template.json", store->home, name);
}

static bool exists(const struct store *store, const char *name)
{
    char *path auto_free = file_of(store, name);
    return is_name(name) && file_exists(path);
}

static char *resolve(const struct store *store, const char *wanted)
{
    char *name auto_free = xstrdup(wanted);
    char *tag = strchr(name, ':');
    if (tag) {
        *tag++ = '\0';
        if (strcmp(tag, "default") != 0 && strcmp(tag, "latest") != 0)
            return NULL;
    }
    if (exists(store, name))
        return steal(&name);
    if (strcmp(name, "base") == 0 && exists(store, "default"))
        return xstrdup("default");
    return NULL;
}

int templates_find(const struct store *store, const char *wanted, struct known_template *out,
                   struct err *e)
{
    char *name auto_free = resolve(store, wanted);
    if (!name && is_name(wanted))
        return err_set(e, ERR_NOT_FOUND,
                       "template '%s' not found; `cubby template build %s` makes it", wanted,
                       wanted);
    if (!name)
        return err_set(e, ERR_NOT_FOUND, "template '%.100s' not found", wanted);
    char *dir auto_free = dir_of(store, name);
    if (store->driver->facts(dir, &out->facts, e) < 0)
        return err_wrap(e, "template '%s'", name);
    out->name = steal(&name);
    out->dir = steal(&dir);
    return 0;
}

void templates_fini(struct known_template *t)
{
    free(t->name);
    free(t->dir);
    *t = (struct known_template){0};
}

// Nothing is built in the background here, so each template is one build, and it is ready.
static json_t *to_json(const struct store *store, const struct known_template *t)
{
    char *path auto_free = file_of(store, t->name);
    struct stat st = {0};
    stat(path, &st);
    char made[CLOCK_RFC3339_BYTES];
    clock_rfc3339(made, (int64_t)st.st_mtime * 1000000000);
    return json_pack(
        "{s:s, s:s, s:i, s:I, s:I, s:b, s:[s], s:[s], s:s, s:s, s:n, s:n, s:i, s:i, s:s, s:s}",
        "templateID", t->name, "buildID", t->name, "cpuCount", t->facts.cpus, "memoryMB",
        (json_int_t)t->facts.memory_mb, "diskSizeMB", (json_int_t)t->facts.disk_mb, "public", 0,
        "aliases", t->name, "names", t->name, "createdAt", made, "updatedAt", made, "createdBy",
        "lastSpawnedAt", "spawnCount", 0, "buildCount", 1, "envdVersion", ENVD_VERSION,
        "buildStatus", "ready");
}

json_t *templates_list(const struct store *store)
{
    json_t *list = json_array();
    char *path auto_free = home_path(store->home, "templates");
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        struct known_template t = {0};
        struct err e = ERR_INIT;
        if (exists(store, names[i]->d_name) && templates_find(store, names[i]->d_name, &t, &e) == 0)
            json_array_append_new(list, to_json(store, &t));
        templates_fini(&t);
        free(names[i]);
    }
    free(names);
    return list;
}
