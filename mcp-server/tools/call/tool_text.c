// SPDX-License-Identifier: Apache-2.0
// Descriptions of tools that fit the options of this server and the limits of the caller.
#include "mcp-server/tools/call/tool_text.h"

#include <string.h>

#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static bool is_true(struct context *cx, const char *name)
{
    const char *usual = cx->config->template;
    if (str_eq(name, "default_template"))
        return !usual || str_eq(usual, "default");
    return tools_find(cx, name) != NULL;
}

static int64_t value_of(const struct context *cx, const struct caller *caller, const char *name)
{
    if (str_eq(name, "sandbox_timeout"))
        return caller_timeout(caller, cx->config);
    return config_command_timeout_ms(cx->config, false) / 1000;
}

// Append the text for "NAME" or "NAME:words".
static void add_part(struct buf *out, struct context *cx, const struct caller *caller,
                     const char *part, size_t len)
{
    const char *colon = memchr(part, ':', len);
    char *name auto_free = xstrndup(part, colon ? (size_t)(colon - part) : len);
    if (!colon)
        buf_printf(out, "%lld", (long long)value_of(cx, caller, name));
    else if (is_true(cx, name))
        buf_add(out, colon + 1, len - (size_t)(colon + 1 - part));
}

char *tool_text(struct context *cx, const struct caller *caller, const char *text)
{
    struct buf out = BUF_INIT;
    const char *from;
    const char *end;
    while ((from = strstr(text, "${")) && (end = strchr(from, '}'))) {
        buf_add(&out, text, (size_t)(from - text));
        add_part(&out, cx, caller, from + 2, (size_t)(end - from - 2));
        text = end + 1;
    }
    buf_adds(&out, text);
    return buf_take(&out);
}
