// SPDX-License-Identifier: Apache-2.0
// The environment of a command.
#include "sandbox-backend/envd/environment.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static json_t *merge(const struct user *user, json_t *global, const json_t *request)
{
    const char *path = getenv("PATH");
    json_t *all = json_pack("{s:s, s:s, s:s, s:s}", "PATH", path && *path ? path : DEFAULT_PATH,
                            "HOME", user->home, "USER", user->name, "LOGNAME", user->name);
    json_object_update(all, global);
    if (request)
        json_object_update(all, (json_t *)(uintptr_t)request);
    return all;
}

static int measure(json_t *all, size_t *bytes, struct err *e)
{
    const char *name;
    json_t *value;
    *bytes = (json_object_size(all) + 1) * sizeof(char *);
    json_object_foreach(all, name, value)
    {
        if (!*name || strchr(name, '='))
            return err_set(e, ERR_INVALID, "envs: '%s' cannot be a variable's name", name);
        *bytes += strlen(name) + json_string_length(value) + 2;
    }
    return 0;
}

static int fill(struct environment *env, json_t *all, struct err *e)
{
    size_t bytes;
    if (measure(all, &bytes, e) < 0)
        return -1;
    env->envp = try_malloc(bytes);
    if (!env->envp)
        return err_set(e, ERR_LIMIT, "no memory for the command's environment");
    char *text = (char *)(env->envp + json_object_size(all) + 1);
    size_t i = 0;
    const char *name;
    json_t *value;
    json_object_foreach(all, name, value)
    {
        env->envp[i++] = text;
        text = stpcpy(stpcpy(text, name), "=");
        if (strcmp(name, "PATH") == 0)
            env->path = text;
        text = stpcpy(text, json_string_value(value)) + 1;
    }
    env->envp[i] = NULL;
    return 0;
}

int environment_init(struct environment *env, const struct user *user, json_t *global,
                     const json_t *request, struct err *e)
{
    *env = (struct environment){.path = ""};
    json_t *all = merge(user, global, request);
    if (!all)
        return err_set(e, ERR_INVALID, "the user's name or home is not UTF-8");
    int rc = fill(env, all, e);
    json_decref(all);
    return rc;
}

void environment_fini(struct environment *env)
{
    free(env->envp);
}
