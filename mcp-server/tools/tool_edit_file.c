// SPDX-License-Identifier: Apache-2.0
// edit_file: exact replacement in a file of a sandbox.
//
// Steps: 1. read the file; 2. replace, here; 3. write it back, if it is still what was read: in a
// new file that takes the old one's place at once, mode and owner kept; in the old one where that
// would break a link to it, or change whose it is.
#include <string.h>

#include "mcp-server/tools/edit.h"
#include "mcp-server/tools/guest_put.h"
#include "mcp-server/tools/text.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/keys/sha256.h"

#define FILE_BYTES_MAX ((int64_t)4 << 20)

// $4 is the SHA-256 of what was read. "<path>\0"
static const char SCRIPT[] = GUEST_PUT_HEAD
    "name=$p\n"
    "p=$(readlink -f -- \"$p\" && echo .) || exit 20\n"
    "p=${p%??}\n" // the dot keeps what $() would take: line ends of the name
    "[ -f \"$p\" ] || exit 20\n"
    "if [ ! -w \"$p\" ]; then echo \"$p: Permission denied\" >&2; exit 1; fi\n"
    "same() { [ \"$(sha256sum <\"$p\")\" = \"$1  -\" ]; }\n"
    "same \"$4\" || exit 30\n"
    "if [ \"$(stat -c '%h %u' -- \"$p\")\" = \"1 $(id -u)\" ] &&\n"
    "    t=$(mktemp -- \"${p%/*}/.cubby-XXXXXX\" 2>/dev/null); then\n"
    "    if put >\"$t\" && cp --attributes-only --preserve=all -- \"$p\" \"$t\"; then\n"
    "        same \"$4\" || { rm -f -- \"$t\"; exit 30; }\n"
    "        touch -- \"$t\"\n"
    "        mv -f -- \"$t\" \"$p\" || { rm -f -- \"$t\"; exit 1; }\n"
    "    else\n"
    "        rm -f -- \"$t\"\n"
    "        exit 1\n"
    "    fi\n"
    "else\n"
    "    put >\"$p\" || exit 1\n"
    "fi\n"
    "printf '%s\\0' \"$name\"\n";

static void edited_free(struct edited *d)
{
    edited_fini(d);
    free(d);
}

// ---- 3.

static void finish(struct tool_call *c, const struct edited *d, const char *path)
{
    json_t *o = json_object();
    json_object_set_new(o, "path", json_lossy_string(path, strlen(path)));
    json_object_set_new(o, "replacements", json_integer(d->count));
    json_object_set_new(o, "size", json_integer((json_int_t)d->text.len));
    json_object_set_new(o, "diff", json_lossy_string(buf_str(&d->diff), d->diff.len));
    tool_call_add_link(c, path, NULL, (int64_t)d->text.len);
    tool_call_finish(c, o);
}

static void on_written(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    struct edited *d = ctx;
    if (!e && (r->exit_code == 30 || r->exit_code == 20))
        tool_call_fail(c, "file_changed",
                       "%s was changed by something else in the meantime; it is left as it is now. "
                       "Read it again",
                       tool_call_string(c, "path"));
    else if (e || r->exit_code != 0)
        guest_script_fail(c, "write the file", r, e);
    else
        finish(c, d, buf_str(&r->out));
    edited_free(d);
}

static void write_back(struct tool_call *c, struct edited *d, const struct sha256 *was)
{
    char hex[2 * sizeof was->bytes + 1];
    hex_encode(hex, was->bytes, sizeof was->bytes);
    guest_put_run(c,
                  &(struct guest_put){
                      .script = SCRIPT,
                      .path = tool_call_string(c, "path"),
                      .more = hex,
                      .user = tool_call_string(c, "user"),
                      .data = buf_str(&d->text),
                      .len = d->text.len,
                  },
                  on_written, d);
}

// ---- 2.

static void replace(struct tool_call *c, const char *data, size_t len)
{
    struct err e = ERR_INIT;
    struct edit edit = {
        .old_text = tool_call_string(c, "old_text"),
        .new_text = tool_call_string(c, "new_text"),
        .all = json_is_true(json_object_get(c->args, "replace_all")),
        .max = FILE_BYTES_MAX,
    };
    struct edited *d = xmalloc(sizeof *d);
    if (edit_apply(&edit, data, len, d, &e) == 0) {
        struct sha256 was = sha256_of(data, len);
        write_back(c, d, &was);
        return;
    }
    edited_free(d);
    const char *code = e.code == ERR_CONFLICT    ? "not_unique"
                       : e.code == ERR_INVALID   ? "invalid_argument"
                       : e.code == ERR_TOO_LARGE ? "too_large"
                                                 : "no_match";
    tool_call_fail(c, code, "%s", e.msg);
}

// ---- 1.

static void on_read(const char *data, size_t len, const struct err *e, void *ctx)
{
    struct tool_call *c = ctx;
    const char *path = tool_call_string(c, "path");
    c->op = NULL;
    if (e && e->code == ERR_TOO_LARGE)
        tool_call_fail(c, "too_large", "%s is larger than %lld bytes%s", path,
                       (long long)FILE_BYTES_MAX,
                       tool_call_hint(c, "run_command", ": use run_command with sed or python"));
    else if (e)
        tool_call_fail_err(c, "read the file", e);
    else if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else
        replace(c, data, len);
}

static void start(struct tool_call *c)
{
    struct client *client = tool_call_client(c, 60);
    if (client)
        c->op = client_read(client, c->id, tool_call_string(c, "path"), FILE_BYTES_MAX,
                            tool_call_string(c, "user"), on_read, c);
}

static char *text_of(const json_t *o)
{
    long long count = text_int(o, "replacements");
    char *path auto_free = visible_text(text_string(o, "path"));
    return str_printf("Edited %s (%lld replacement%s, now %lld bytes)\n%s", path, count,
                      count == 1 ? "" : "s", text_int(o, "size"), text_string(o, "diff"));
}

const struct tool TOOL_EDIT_FILE = {"edit_file", start, text_of};
