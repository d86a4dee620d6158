// SPDX-License-Identifier: Apache-2.0
// The methods of process.Process: what requests say, and the answers that are no stream.
#include "sandbox-backend/envd/process_rpc.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/environment.h"
#include "sandbox-backend/envd/follower.h"
#include "sandbox-backend/envd/paths.h"
#include "sandbox-backend/envd/pjson.h"

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

static int read_config(const struct rpc *call, const json_t *request, struct process_config *config,
                       const json_t **envs, const char **cwd, struct err *e)
{
    const json_t *process;
    const json_t *pty;
    if (pjson_message(request, "process", &process, e) < 0 ||
        pjson_message(request, "pty", &pty, e) < 0 ||
        pjson_string(request, "tag", &config->tag, NULL, e) < 0 ||
        pjson_bool(request, "stdin", &config->want_stdin, true, e) < 0)
        return -1;
    if (pty)
        return err_set(e, ERR_UNIMPLEMENTED, "pseudo terminals (pty) are not supported here");
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

static void handle_start(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    struct process *p = start(call, request, &e);
    if (p)
        follower_new(call, p, true);
    else
        rpc_fail(call, &e);
}

// ---- selecting one

static struct process *select_process(const struct rpc *call, const json_t *request, bool ended_too,
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
    struct process *p = select_process(call, request, true, &e);
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

// ---- SendInput

// What waits until its bytes are in the pipe: the call, and the process in case the call goes
// first.
struct input {
    struct rpc *call;
    struct process *process;
};

static void on_written(const struct err *e, void *ctx)
{
    struct input *input = ctx;
    input->call->on_closed = NULL;
    if (e)
        rpc_fail(input->call, e);
    else
        rpc_reply_text(input->call, "{}");
    free(input);
}

static void on_input_closed(struct rpc *call)
{
    struct input *input = call->ctx;
    process_forget_write(input->process, input);
    free(input);
}

static int send_input(struct rpc *call, const json_t *request, struct err *e)
{
    struct process *p = select_process(call, request, false, e);
    const json_t *sent;
    struct buf bytes auto_buf = BUF_INIT;
    bool is_stdin;
    if (!p || pjson_message(request, "input", &sent, e) < 0)
        return -1;
    if (pjson_get(sent, "pty", NULL))
        return err_set(e, ERR_INTERNAL, "tty not assigned to process");
    if (pjson_bytes(sent, "stdin", &bytes, &is_stdin, e) < 0)
        return -1;
    if (!is_stdin)
        return err_set(e, ERR_UNIMPLEMENTED, "the input must be stdin or pty");
    struct input *input = xmalloc(sizeof *input);
    *input = (struct input){.call = call, .process = p};
    if (process_write(p, buf_str(&bytes), bytes.len, on_written, input, e) < 0) {
        free(input);
        return -1;
    }
    call->ctx = input;
    call->on_closed = on_input_closed;
    return 0;
}

static void handle_send_input(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    if (send_input(call, request, &e) < 0)
        rpc_fail(call, &e);
}

// ---- the small ones

static void reply_or_fail(struct rpc *call, const struct err *e)
{
    if (err_is(e))
        rpc_fail(call, e);
    else
        rpc_reply_text(call, "{}");
}

static void handle_close_stdin(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    struct process *p = select_process(call, request, false, &e);
    if (p)
        process_close_stdin(p);
    reply_or_fail(call, &e);
}

static void handle_send_signal(struct rpc *call, const json_t *request)
{
    static const struct pjson_enum SIGNALS[] = {
        {"SIGNAL_UNSPECIFIED", 0}, {"SIGNAL_SIGTERM", SIGTERM}, {"SIGNAL_SIGKILL", SIGKILL}};
    struct err e = ERR_INIT;
    int number;
    struct process *p = select_process(call, request, false, &e);
    if (p && pjson_enum(request, "signal", SIGNALS, ARRAY_LEN(SIGNALS), &number, &e) == 0) {
        if (number == SIGTERM || number == SIGKILL)
            process_signal(p, number);
        else
            err_set(&e, ERR_UNIMPLEMENTED, "invalid signal: %d", number);
    }
    reply_or_fail(call, &e);
}

static void handle_update(struct rpc *call, const json_t *request)
{
    struct err e = ERR_INIT;
    const struct process *p = select_process(call, request, false, &e);
    if (p && pjson_get(request, "pty", NULL))
        err_set(&e, ERR_INTERNAL, "error resizing tty: tty not assigned to process");
    reply_or_fail(call, &e);
}

const struct rpc_method PROCESS_METHODS[] = {
    {"/process.Process/Start", true, handle_start},
    {"/process.Process/Connect", true, handle_connect},
    {"/process.Process/List", false, handle_list},
    {"/process.Process/SendInput", false, handle_send_input},
    {"/process.Process/CloseStdin", false, handle_close_stdin},
    {"/process.Process/SendSignal", false, handle_send_signal},
    {"/process.Process/Update", false, handle_update},
};
const size_t PROCESS_METHOD_COUNT = ARRAY_LEN(PROCESS_METHODS);
