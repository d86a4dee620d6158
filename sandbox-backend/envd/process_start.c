// SPDX-License-Identifier: Apache-2.0
// Starting a command: where its program may be, its arguments, its cgroup.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/out_of_memory.h"
#include "sandbox-backend/envd/process_internal.h"
#include "sandbox-backend/envd/process_spawn.h"

// The paths that `cmd` may stand for: itself when it has a slash, else one a directory of `path`.
// One allocation: pointers, then text.
static char **make_candidates(const char *cmd, const char *path)
{
    size_t count = 1;
    size_t len = strlen(cmd);
    bool search = len && !strchr(cmd, '/');
    for (const char *p = search ? path : ""; *p; p++)
        count += *p == ':';
    size_t room = (count + 1) * sizeof(char *) + strlen(path) + count * (len + 3);
    char **list = try_malloc(room);
    if (!list)
        return NULL;
    char *text = (char *)(list + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t n = search ? strcspn(path, ":") : 0;
        list[i] = text;
        text += sprintf(text, "%.*s%s%s", (int)n, path, search && n ? "/" : "", cmd) + 1;
        path += n + (search && path[n] == ':');
    }
    list[count] = NULL;
    return list;
}

// argv with a free place before it (see process_spawn.h). The strings are borrowed.
static char **make_argv(const struct process_config *config)
{
    size_t count = json_array_size(config->args);
    char **block = try_malloc((count + 3) * sizeof(char *));
    if (!block)
        return NULL;
    block[0] = NULL;
    block[1] = (char *)(uintptr_t)config->cmd;
    for (size_t i = 0; i < count; i++)
        block[2 + i] = (char *)(uintptr_t)json_string_value(json_array_get(config->args, i));
    block[2 + count] = NULL;
    return block;
}

struct process *process_start(struct processes *ps, const struct process_config *config,
                              struct err *e)
{
    if (!process__make_room(ps)) {
        err_set(e, ERR_LIMIT, "%d commands run already", PROCESSES_MAX);
        return NULL;
    }
    char **candidates auto_free = make_candidates(config->cmd, config->path);
    char **argv auto_free = make_argv(config);
    if (!candidates || !argv) {
        err_set(e, ERR_LIMIT, "no memory for the command's arguments");
        return NULL;
    }
    int cgroup = cgroup_take(ps->cgroups);
    struct spawn s = {
        .cmd = config->cmd,
        .argv = argv + 1,
        .envp = config->envp,
        .candidates = candidates,
        .cwd = config->cwd,
        .user = config->user,
        .want_stdin = config->want_stdin,
        .want_pty = config->want_pty,
        .size = config->size,
        .null_fd = ps->null_fd,
        .oom_fd = ps->oom_fd,
        .oom_own = ps->oom_own,
        .oom_kills = out_of_memory_kills(ps->kills_fd),
        .cgroup_fd = cgroup_fd(ps->cgroups, cgroup),
        .nofile = *ps->nofile,
    };
    int rc = spawn_start(&s, e);
    if (rc < 0 || !s.in_cgroup) {
        cgroup_give_back(ps->cgroups, cgroup);
        cgroup = -1;
    }
    return rc < 0 ? NULL : process__add(ps, config, &s, cgroup);
}
