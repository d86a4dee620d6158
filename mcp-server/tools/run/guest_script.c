// SPDX-License-Identifier: Apache-2.0
// A short shell script that runs in a sandbox for a tool.
#include "mcp-server/tools/run/guest_script.h"

#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ERR_KEPT ((size_t)1024)

struct running {
    struct tool_call *call;
    struct guest_result result;
    size_t out_max;
    guest_script_cb cb;
    void *ctx;
};

static void keep(struct buf *to, const char *data, size_t len, size_t max)
{
    size_t room = max - to->len;
    buf_add(to, data, len < room ? len : room);
}

static void on_stdout(const char *data, size_t len, void *ctx)
{
    struct running *r = ctx;
    keep(&r->result.out, data, len, r->out_max);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    struct running *r = ctx;
    keep(&r->result.err, data, len, ERR_KEPT);
}

static void on_end(const struct command_result *end, const struct err *e, void *ctx)
{
    struct running *r = ctx;
    struct tool_call *c = r->call;
    c->op = NULL;
    r->result.exit_code = !e && end->end == COMMAND_EXITED ? end->exit_code : -1;
    r->result.timed_out = !e && end->end == COMMAND_TIMED_OUT;
    r->result.may_be_run = e && end->may_have_run && e->code != ERR_CANCELED;
    r->cb(c, &r->result, e, r->ctx);
    buf_fini(&r->result.out);
    buf_fini(&r->result.err);
    free(r);
}

void guest_script_run(struct tool_call *c, const struct guest_script *s, guest_script_cb cb,
                      void *ctx)
{
    static const struct command_events EVENTS = {
        .on_stdout = on_stdout, .on_stderr = on_stderr, .on_end = on_end};
    const char *args[3 + GUEST_SCRIPT_ARGS_MAX + 1] = {"-c", s->text, "cubby"};
    for (size_t i = 0; i < GUEST_SCRIPT_ARGS_MAX && s->args[i]; i++)
        args[3 + i] = s->args[i];
    struct running *r = xmalloc(sizeof *r);
    *r = (struct running){.call = c, .out_max = s->out_max, .cb = cb, .ctx = ctx};
    struct command_opts opts = {
        .cmd = "/bin/bash",
        .args = args,
        .cwd = s->cwd ? s->cwd : "~", // a template may begin elsewhere
        .user = s->user,
        .timeout_ms = s->timeout_ms,
        .open_stdin = s->open_stdin,
    };
    c->op = client_command(c->context->client, c->id, &opts, &EVENTS, r);
}

const char *guest_script_complaint(const struct buf *err, int *len)
{
    const char *text = buf_str(err);
    const char *rest = str_starts(text, "cubby: line ") ? strstr(text + 12, ": ") : NULL;
    if (rest)
        text = rest + 2;
    *len = (int)utf8_valid_prefix(text, strcspn(text, "\n"));
    return text;
}

void guest_script_fail(struct tool_call *c, const char *what, const struct guest_result *r,
                       const struct err *e)
{
    if (e && r->may_be_run) {
        tool_call_fail(
            c, "command_lost",
            "could not %s: %s. It may have been done all the same: check before you repeat it",
            what, e->msg);
        return;
    }
    if (e) {
        tool_call_fail_err(c, what, e);
        return;
    }
    if (r->timed_out) {
        tool_call_fail(c, "timeout", "could not %s in time", what);
        return;
    }
    if (r->exit_code == GUEST_SCRIPT_NO_PROGRAM && strstr(buf_str(&r->err), "/bash: not found")) {
        tool_call_fail(c, "failed",
                       "could not %s: this tool needs bash, which this sandbox does not have. "
                       "run_command works without it",
                       what);
        return;
    }
    int len;
    const char *said = guest_script_complaint(&r->err, &len);
    const char *hint =
        strstr(said, "ermission denied") ? ". Another user may be allowed (user: root)" : "";
    if (len)
        tool_call_fail(c, "failed", "could not %s: %.*s%s", what, len, said, hint);
    else
        tool_call_fail(c, "failed", "could not %s (exit code %d)", what, r->exit_code);
}
