// SPDX-License-Identifier: Apache-2.0
// build_template: a template with more packages and programs, by E2B's template builder. It is
// offered only with --allow-builds.
//
// The tool makes the steps of the build from its arguments. Each entry of the build's log is
// progress. The error of a failed build has the last lines of its log.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define MARK       "agent" // the tag of templates that this tool has built, and may build again
#define TAIL_LINES 15
#define LINE_BYTES 400 // of each line in an error
#define BASE       "default"

struct building {
    json_t *tail; // owned; array of the last entries of the log
    char *step;   // owned; E2B's name of the step in progress, or NULL
    int steps;
};

// ---- 1. the steps
static json_t *run_step(const char *command, const char *user)
{
    return json_pack("{s:s, s:[s, s]}", "type", "RUN", "args", command, user);
}

// Add one step that installs all packages of a list, as root. A package is a word of the shell.
static void add_packages(json_t *steps, const json_t *packages, const char *command)
{
    struct buf line auto_buf = BUF_INIT;
    size_t i;
    json_t *one;
    buf_adds(&line, command);
    json_array_foreach (packages, i, one) {
        char *word auto_free = str_shell_word(json_string_value(one));
        buf_printf(&line, " %s", word);
    }
    if (json_array_size(packages))
        json_array_append_new(steps, run_step(buf_str(&line), "root"));
}

static json_t *steps_of(const struct tool_call *c)
{
    json_t *steps = json_array();
    size_t i;
    json_t *one;
    const char *user = tool_call_string(c, "user");
    add_packages(steps, json_object_get(c->args, "packages"),
                 "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y "
                 "--no-install-recommends");
    add_packages(steps, json_object_get(c->args, "pip"), "pip install --no-cache-dir");
    add_packages(steps, json_object_get(c->args, "npm"), "npm install -g");
    json_array_foreach (json_object_get(c->args, "commands"), i, one) {
        json_array_append_new(steps, run_step(json_string_value(one), user ? user : "user"));
    }
    return steps;
}

static json_t *body_of(const struct tool_call *c)
{
    const char *image = tool_call_string(c, "image");
    const char *template = tool_call_string(c, "template");
    json_t *body = json_pack("{s:o, s:s*, s:s*}", "steps", steps_of(c), "startCmd",
                             tool_call_string(c, "start_command"), "readyCmd",
                             tool_call_string(c, "ready_command"));
    if (image)
        json_object_set_new(body, "fromImage", json_string(image));
    else
        json_object_set_new(body, "fromTemplate", json_string(template ? template : BASE));
    return body;
}

// ---- 2. the log
static void keep_line(struct building *b, const char *message)
{
    size_t len = utf8_valid_prefix(message, strnlen(message, LINE_BYTES));
    json_array_append_new(b->tail, json_lossy_string(message, len));
    if (json_array_size(b->tail) > TAIL_LINES)
        json_array_remove(b->tail, 0);
}

static void on_entry(const char *step, const char *message, void *ctx)
{
    struct tool_call *c = ctx;
    struct building *b = c->state;
    char *line auto_free = str_printf("%s\n", message);
    if (step && !str_eq(step, b->step)) {
        free(b->step);
        b->step = xstrdup(step);
        json_array_clear(b->tail); // what an earlier step printed explains no failure
    }
    keep_line(b, message);
    c->bytes += (int64_t)strlen(line);
    tool_call_output(c, PROGRESS_STDOUT, line, strlen(line));
}

// ---- 3. the end
static void release(struct tool_call *c)
{
    struct building *b = c->state;
    json_decref(b->tail);
    free(b->step);
    free(b);
    c->state = NULL;
}

static void fail_build(struct tool_call *c, const json_t *info)
{
    struct building *b = c->state;
    const json_t *reason = json_object_get(info, "reason");
    const char *message = json_string_value(json_object_get(reason, "message"));
    const char *step = json_string_value(json_object_get(reason, "step"));
    struct buf text auto_buf = BUF_INIT;
    size_t i;
    json_t *line;
    buf_printf(&text, "the build failed%s%s: %s", step ? " at step " : "", step ? step : "",
               message ? message : "the server gives no reason");
    json_array_foreach (b->tail, i, line) {
        buf_printf(&text, "%s%s", i ? "\n" : "\nThe last lines of its log:\n",
                   json_string_value(line));
    }
    release(c);
    tool_call_fail(c, "build_failed", "%s", buf_str(&text));
}

static void on_end(const json_t *info, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    struct building *b = c->state;
    c->op = NULL;
    if (!e && !str_eq(text_string(info, "status"), "ready")) {
        fail_build(c, info);
        return;
    }
    int steps = b->steps;
    release(c);
    if (e && e->code == ERR_CONFLICT)
        tool_call_fail(c, "template_exists", "%s", e->msg);
    else if (e)
        tool_call_fail_err(c, "build the template", e);
    else
        tool_call_finish(c, json_pack("{s:s, s:s, s:i}", "template", tool_call_string(c, "name"),
                                      "build_id", text_string(info, "buildID"), "steps", steps));
}

static int64_t argument_int(const struct tool_call *c, const char *name)
{
    return json_integer_value(json_object_get(c->args, name)); // 0: absent
}

// Return -1 with the call failed if an argument is above its limit. most: 0 is no limit.
static int check_most(struct tool_call *c, const char *name, int64_t most)
{
    int64_t given = argument_int(c, name);
    if (most == 0 || given <= most)
        return 0;
    tool_call_fail(c, "invalid_argument", "argument '%s' must be at most %lld here, not %lld", name,
                   (long long)most, (long long)given);
    return -1;
}

static int check_arguments(struct tool_call *c)
{
    const struct config *config = c->context->config;
    if (tool_call_string(c, "image") && tool_call_string(c, "template")) {
        tool_call_fail(c, "invalid_argument", "give either template or image, not both");
        return -1;
    }
    if (check_most(c, "cpus", caller_most(c->caller->max_cpus, config->max_cpus)) < 0)
        return -1;
    return check_most(c, "memory_mb", caller_most(c->caller->max_memory_mb, config->max_memory_mb));
}

static void start(struct tool_call *c)
{
    static const struct build_events EVENTS = {.on_entry = on_entry, .on_end = on_end};
    struct client *client = check_arguments(c) < 0 ? NULL : tool_call_client(c, 0);
    if (!client)
        return;
    json_t *body = body_of(c);
    struct building *b = xcalloc(1, sizeof *b);
    b->tail = json_array();
    b->steps = (int)json_array_size(json_object_get(body, "steps"));
    c->state = b;
    const struct build_opts opts = {.name = tool_call_string(c, "name"),
                                    .cpus = argument_int(c, "cpus"),
                                    .memory_mb = argument_int(c, "memory_mb"),
                                    .steps = body,
                                    .mark = MARK};
    c->op = client_build(client, &opts, &EVENTS, c);
    json_decref(body);
}

static char *text_of(const json_t *o)
{
    char *name auto_free = visible_text(text_string(o, "template"));
    return str_printf("Template %s is built. Pass it to create_sandbox as template.", name);
}

static bool is_allowed(const struct config *config)
{
    return config->allow_builds;
}

const struct tool tool_build_template = {
    .name = "build_template", .start = start, .text = text_of, .is_allowed = is_allowed};
