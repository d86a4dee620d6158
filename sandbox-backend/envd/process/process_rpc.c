// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process: parse requests, send unary responses. Input: process_input.c;
// streams: follower.c.
#include "sandbox-backend/envd/process/process_rpc.h"

#include <inttypes.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/core/paths.h"
#include "sandbox-backend/envd/guest/quiesce.h"
#include "sandbox-backend/envd/rpc/pjson.h"

// ---- the environment of a command

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Variables that commands inherit from envd, where it has them: on a host that it shares with
// others (nest/host_dir.c), they keep a sandbox's temporary files in its directory.
static const char *const INHERITED[] = {"TMPDIR", "CUBBY_COMMANDS"};

static json_t *merge(const struct user *user, json_t *global, const json_t *request)
{
    const char *path = getenv("PATH");
    json_t *all = json_pack("{s:s, s:s, s:s, s:s}", "PATH", path && *path ? path : DEFAULT_PATH,
                            "HOME", user->home, "USER", user->name, "LOGNAME", user->name);
    for (size_t i = 0; all && i < ARRAY_LEN(INHERITED); i++)
        if (getenv(INHERITED[i]))
            json_object_set_new(all, INHERITED[i], json_string(getenv(INHERITED[i])));
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
    json_object_foreach (all, name, value) {
        if (!*name || strchr(name, '='))
            return err_set(e, ERR_INVALID, "envs: '%s' is not a valid variable name", name);
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
        return err_set(e, ERR_LIMIT, "not enough memory for the command's environment");
    char *text = (char *)(env->envp + json_object_size(all) + 1);
    size_t i = 0;
    const char *name;
    json_t *value;
    json_object_foreach (all, name, value) {
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
        return err_set(e, ERR_INVALID, "the user's name or home directory is not UTF-8");
    int rc = fill(env, all, e);
    json_decref(all);
    return rc;
}

void environment_fini(struct environment *env)
{
    free(env->envp);
}

// ---- Start

static int check_cwd(const char *cwd, struct err *e)
{
    struct stat st;
    if (stat(cwd, &st) < 0)
        return err_set(e, ERR_INVALID, "cwd '%s' does not exist", cwd);
    if (!S_ISDIR(st.st_mode))
        return err_set(e, ERR_INVALID, "cwd '%s' is not a directory", cwd);
    return 0;
}

// Read the size in a "pty" member, which may be NULL.
static int read_size(const json_t *pty, struct pty_size *out, struct err *e)
{
    const json_t *size;
    uint32_t cols;
    uint32_t rows;
    if (pjson_message(pty, "size", &size, e) < 0 || pjson_uint32(size, "cols", &cols, 0, e) < 0 ||
        pjson_uint32(size, "rows", &rows, 0, e) < 0)
        return -1;
    if (cols > UINT16_MAX || rows > UINT16_MAX)
        return err_set(e, ERR_INVALID, "a terminal has at most %d columns and rows", UINT16_MAX);
    *out = (struct pty_size){.cols = (uint16_t)cols, .rows = (uint16_t)rows};
    return 0;
}

static int read_config(const struct rpc *call, const json_t *request, struct process_config *config,
                       const json_t **envs, const char **cwd, struct err *e)
{
    const json_t *process;
    const json_t *pty;
    if (pjson_message(request, "process", &process, e) < 0 ||
        pjson_message(request, "pty", &pty, e) < 0 ||
        pjson_string(request, "tag", &config->tag, NULL, e) < 0 ||
        pjson_bool(request, "stdin", &config->want_stdin, true, e) < 0 ||
        read_size(pty, &config->size, e) < 0)
        return -1;
    config->want_pty = pty != NULL;
    if (!process)
        return err_set(e, ERR_INVALID, "process must be set");
    config->user = &call->user;
    config->timeout_ms = call->timeout_ms;
    config->shown = (json_t *)(uintptr_t)process;
    if (pjson_string(process, "cmd", &config->cmd, "", e) < 0 ||
        pjson_strings(process, "args", &config->args, e) < 0 ||
        pjson_string_map(process, "envs", envs, e) < 0 ||
        pjson_string(process, "cwd", cwd, "", e) < 0)
        return -1;
    return 0;
}

static struct process *start(const struct rpc *call, const json_t *request, struct err *e)
{
    struct envd *envd = call->envd;
    struct process_config config = {0};
    const json_t *envs;
    const char *asked_cwd;
    if (read_config(call, request, &config, &envs, &asked_cwd, e) < 0)
        return NULL;
    char *cwd auto_free = path_resolve(asked_cwd, &call->user, envd->settings.default_workdir, e);
    if (!cwd || check_cwd(cwd, e) < 0)
        return NULL;
    struct environment environment;
    if (environment_init(&environment, &call->user, envd->settings.envs, envs, e) < 0)
        return NULL;
    config.cwd = cwd;
    config.envp = environment.envp;
    config.path = environment.path;
    struct process *p = process_start(envd->processes, &config, e);
    environment_fini(&environment);
    return p;
}

// A child that starts in a frozen command group would never execute its program, and envd, which
// waits for that, would stop with it. So a Start waits until the guest is no longer quiesced.
static void handle_start(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    if (quiesce_hold(call, request, handle_start))
        return;
    struct process *p = start(call, request, &e);
    if (p)
        follower_new(call, p, true);
    else
        rpc_fail(call, &e);
}

// ---- the selector

struct process *process_select(const struct rpc *call, const json_t *request, bool ended_too,
                               struct err *e)
{
    struct processes *ps = call->envd->processes;
    const json_t *selector;
    const char *tag;
    uint32_t pid;
    if (pjson_message(request, "process", &selector, e) < 0 ||
        pjson_string(selector, "tag", &tag, NULL, e) < 0 ||
        pjson_uint32(selector, "pid", &pid, 0, e) < 0)
        return NULL;
    bool by_pid = pjson_get(selector, "pid", NULL) != NULL;
    struct process *p = NULL;
    if (by_pid && !(p = process_by_pid(ps, pid, ended_too)))
        err_set(e, ERR_NOT_FOUND, "process with pid %" PRIu32 " not found", pid);
    else if (!by_pid && tag && !(p = process_by_tag(ps, tag, ended_too)))
        err_set(e, ERR_NOT_FOUND, "process with tag %s not found", tag);
    else if (!by_pid && !tag)
        err_set(e, ERR_UNIMPLEMENTED, "the selector must have a pid or a tag");
    return p;
}

static void handle_connect(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    struct process *p = process_select(call, request, true, &e);
    if (p)
        follower_new(call, p, false);
    else
        rpc_fail(call, &e);
}

// ---- List

static void add_listed(const struct process *p, void *ctx)
{
    json_t *info =
        json_pack("{s:O, s:I}", "config", process_shown(p), "pid", (json_int_t)process_pid(p));
    if (process_tag(p))
        json_object_set_new(info, "tag", json_string(process_tag(p)));
    json_array_append_new(ctx, info);
}

static void handle_list(struct rpc *call, const json_t *request)
{
    (void)request;
    json_t *list = json_array();
    process_each(call->envd->processes, add_listed, list);
    json_t *answer = json_pack("{s:o}", "processes", list);
    rpc_reply(call, answer);
    json_decref(answer);
}

// ---- SendSignal, Update

static void reply_or_fail(struct rpc *call, const struct err *e)
{
    if (err_is(e))
        rpc_fail(call, e);
    else
        rpc_reply_text(call, "{}");
}

// E2B's envd signals one process. With "group", a member of ours, everything that the command
// started gets the signal.
static void handle_send_signal(struct rpc *call, const json_t *request)
{
    static const struct pjson_enum SIGNALS[] = {
        {"SIGNAL_UNSPECIFIED", 0}, {"SIGNAL_SIGTERM", SIGTERM}, {"SIGNAL_SIGKILL", SIGKILL}};
    struct err e = ERR_INIT;
    int number;
    bool group;
    struct process *p = process_select(call, request, false, &e);
    if (p && pjson_enum(request, "signal", SIGNALS, ARRAY_LEN(SIGNALS), &number, &e) == 0 &&
        pjson_bool(request, "group", &group, false, &e) == 0) {
        if (number != SIGTERM && number != SIGKILL)
            err_set(&e, ERR_UNIMPLEMENTED, "invalid signal: %d", number);
        else if (group)
            process_signal_all(p, number);
        else
            process_signal(p, number);
    }
    reply_or_fail(call, &e);
}

static void handle_update(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    struct process *p = process_select(call, request, false, &e);
    const json_t *pty;
    struct pty_size size;
    if (p && pjson_message(request, "pty", &pty, &e) == 0 && pty && read_size(pty, &size, &e) == 0)
        process_resize(p, size, &e);
    reply_or_fail(call, &e);
}

const struct rpc_method PROCESS_METHODS[] = {
    {"/process.Process/Start", true, handle_start},
    {"/process.Process/Connect", true, handle_connect},
    {"/process.Process/List", false, handle_list},
    {"/process.Process/SendInput", false, process_input_send},
    {"/process.Process/StreamInput", false, process_input_stream},
    {"/process.Process/CloseStdin", false, process_input_close},
    {"/process.Process/SendSignal", false, handle_send_signal},
    {"/process.Process/Update", false, handle_update},
};
const size_t PROCESS_METHOD_COUNT = ARRAY_LEN(PROCESS_METHODS);
