// SPDX-License-Identifier: Apache-2.0
// list_templates: what new sandboxes can be made from, and what each template has.
#include "mcp-server/text/text.h"
#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define SHOWN_MAX 100

static json_t *shown(const struct tool_call *c, const json_t *info)
{
    static const char *const SIZES[][2] = {
        {"cpus", "cpuCount"}, {"memory_mb", "memoryMB"}, {"disk_mb", "diskSizeMB"}};
    const char *alias = json_string_value(json_array_get(json_object_get(info, "aliases"), 0));
    const char *name = alias ? alias : text_string(info, "templateID");
    const char *usual = c->context->config->template;
    json_t *one = json_pack("{s:s, s:b}", "template", name, "default",
                            str_eq(name, usual ? usual : "default"));
    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++)
        if (json_is_integer(json_object_get(info, SIZES[i][1])))
            json_object_set(one, SIZES[i][0], json_object_get(info, SIZES[i][1]));
    // Only cubbyd says what a template contains. It reads the list that the template's build made.
    if (json_is_string(json_object_get(info, "contents")))
        json_object_set(one, "contents", json_object_get(info, "contents"));
    return one;
}

static void on_listed(const json_t *all, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    json_t *list = json_array();
    size_t i;
    json_t *info;
    c->op = NULL;
    json_array_foreach (all, i, info) {
        if (i < SHOWN_MAX)
            json_array_append_new(list, shown(c, info));
    }
    if (e) {
        json_decref(list);
        tool_call_fail_err(c, "list the templates", e);
        return;
    }
    tool_call_finish(
        c, json_pack("{s:o, s:I}", "templates", list, "total", (json_int_t)json_array_size(all)));
}

static void start(struct tool_call *c)
{
    struct client *client = tool_call_client(c, 0);
    if (client)
        c->op = client_templates(client, on_listed, c);
}

static char *text_of(const json_t *o)
{
    struct buf out = BUF_INIT;
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(o, "templates"), i, one) {
        char *name auto_free = visible_text(text_string(one, "template"));
        const char *has = text_string(one, "contents");
        buf_printf(&out, "%s%s: %lld CPU%s, %lld MB of memory, %lld MB of disk%s%s\n", name,
                   json_is_true(json_object_get(one, "default")) ? " (default)" : "",
                   text_int(one, "cpus"), text_int(one, "cpus") == 1 ? "" : "s",
                   text_int(one, "memory_mb"), text_int(one, "disk_mb"), *has ? "; " : "", has);
    }
    if (out.len == 0)
        return xstrdup("No templates. Ask the user to build one (cubby template build).");
    out.data[--out.len] = '\0';
    return buf_take(&out);
}

const struct tool tool_list_templates = {.name = "list_templates", .start = start, .text = text_of};
