// SPDX-License-Identifier: Apache-2.0
// The default texts: streams as they are, what decides last.
#include <string.h>

#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

const char *text_string(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

long long text_int(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

// A part on lines of its own, under its name when it has one.
void text_add_part(struct buf *out, const char *name, const char *text)
{
    if (!*text)
        return;
    if (name)
        buf_printf(out, "%s:\n", name);
    buf_adds(out, text);
    if (!str_ends(text, "\n"))
        buf_addc(out, '\n');
}

// What a backend adds to the status in brackets: "exit status 137 (out of memory)".
static const char *remark(const json_t *o)
{
    const char *found = strstr(text_string(o, "status"), " (");
    return found ? found : "";
}

void text_add_end(struct buf *out, const json_t *o)
{
    long long ms = text_int(o, "duration_ms");
    long long code = text_int(o, "exit_code");
    if (json_is_true(json_object_get(o, "timed_out")))
        buf_printf(out,
                   "[timed out and killed after %lld ms; what it printed until then is above. Give "
                   "a larger timeout, or run it in the background]",
                   ms);
    else if (code < 0)
        buf_printf(out, "[%s, after %lld ms]", text_string(o, "status"), ms);
    else
        buf_printf(out, "[exit code %lld%s, %lld ms]", code, remark(o), ms);
}

void text_add_network_hint(struct buf *out, const json_t *o)
{
    const char *hint = text_string(o, "network_hint");
    if (*hint)
        buf_printf(out, "\n%s", hint);
}

char *text_of_file(const char *what, const json_t *o)
{
    char *path auto_free = visible_text(text_string(o, "path"));
    return str_printf("%s %s (%lld bytes)", what, path, text_int(o, "bytes"));
}

static char *failure(const struct tool_call *c, const char *code, const char *message)
{
    (void)c;
    return str_printf("%s: %s", code, message);
}

const struct text_profile TEXT_DEFAULT = {
    .structured = true, .flags_errors = true, .error = failure};
