// SPDX-License-Identifier: Apache-2.0
// stop_command: a signal to a command in the background and all of its process group, and KILL to
// what has not ended by then.
#include <stdio.h>

#include "mcp-server/tools/background.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define GRACE_S   5
#define MARGIN_MS 30000

static void on_end(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    (void)ctx;
    int ran;
    int hard;
    int code;
    if (e || r->exit_code != 0 || sscanf(buf_str(&r->out), "%d %d %d", &ran, &hard, &code) != 3) {
        background_fail(c, "stop the command", r, e);
        return;
    }
    json_t *o = json_object();
    json_object_set(o, "command_id", json_object_get(c->args, "command_id"));
    json_object_set_new(o, "was_running", json_boolean(ran));
    json_object_set_new(o, "killed", json_boolean(hard));
    if (code >= 0)
        json_object_set_new(o, "exit_code", json_integer(code));
    tool_call_finish(c, o);
}

static void start(struct tool_call *c)
{
    const json_t *given = json_object_get(c->args, "grace_seconds");
    double grace = given ? json_number_value(given) : GRACE_S;
    if (!background_check_id(c) || !tool_call_client(c, 60))
        return;
    const char *id = tool_call_string(c, "command_id");
    char *ticks auto_free = str_printf("%d", (int)(grace * 10));
    const char *const args[] = {id, tool_call_string(c, "signal"), ticks, NULL};
    guest_script_run(c,
                     &(struct guest_script){
                         .text = BACKGROUND_STOP,
                         .args = args,
                         .user = background_user(id),
                         .cwd = "/",
                         .timeout_ms = (int64_t)(grace * 1000) + MARGIN_MS,
                         .out_max = 4096,
                         .open_stdin = true,
                     },
                     on_end, NULL);
}

static char *text_of(const json_t *o)
{
    const json_t *code = json_object_get(o, "exit_code");
    char *how auto_free =
        code ? str_printf(" (exit code %lld)", (long long)json_integer_value(code)) : xstrdup("");
    if (!json_is_true(json_object_get(o, "was_running")))
        return str_printf("Command %s had ended already%s", text_string(o, "command_id"), how);
    return str_printf("Command %s stopped%s%s", text_string(o, "command_id"),
                      json_is_true(json_object_get(o, "killed")) ? ", by KILL" : "", how);
}

const struct tool TOOL_STOP_COMMAND = {"stop_command", start, text_of};
