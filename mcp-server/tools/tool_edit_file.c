// SPDX-License-Identifier: Apache-2.0
// edit_file: exact replacements in a file of a sandbox, all of them or none.
//
// Steps: 1. read the file; 2. replace the text here; 3. write the file back if it has not changed
// since. Writing makes a new file, with the old mode and owner, that replaces the old one at once.
// Where that is not possible, or would break a link or change the owner, the script overwrites the
// old file.
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/files/edit.h"
#include "mcp-server/tools/files/guest_file.h"
#include "mcp-server/tools/files/guest_put.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/keys/sha256.h"

#define FILE_BYTES_MAX ((int64_t)4 << 20)
#define DIFF_BYTES     ((size_t)8 << 10) // shown of all edits together

// $4 is the SHA-256 of the old content. Edits in one directory lock each other out, also those of
// other servers. Prints "<path>\0".
static const char SCRIPT[] = GUEST_PUT_HEAD GUEST_PUT_OVERWRITE
    "name=$p sum=$4\n"
    "p=$(readlink -f -- \"$p\" && echo .) || exit 20\n"
    "p=${p%??}\n" // the dot keeps what $() would take: line ends of the name
    "[ -f \"$p\" ] || exit 20\n"
    "if [ ! -w \"$p\" ]; then echo \"$p: Permission denied\" >&2; exit 1; fi\n"
    "is_current() { [ \"$(sha256sum <\"$p\")\" = \"$sum  -\" ]; }\n"
    "{ exec 8<\"${p%/*}/\"; } 2>/dev/null && flock -w 20 8 2>/dev/null\n"
    "is_current || exit 30\n"
    "replace() {\n"
    "    local t\n"
    "    [ \"$(stat -c '%h %u' -- \"$p\")\" = \"1 $(id -u)\" ] &&\n"
    "        t=$(mktemp -- \"${p%/*}/.cubby-XXXXXX\") || return\n"
    "    put >\"$t\" && cp --attributes-only --preserve=all -- \"$p\" \"$t\" &&\n"
    "        touch -- \"$t\" && is_current && mv -f -- \"$t\" \"$p\" ||\n"
    "        { rm -f -- \"$t\"; return 1; }\n"
    "}\n"
    "replace 2>/dev/null || { is_current || exit 30; overwrite || exit; }\n"
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
                       "another program or another edit changed %s during the edit, so the edit "
                       "was not applied. Read the file, then edit it again",
                       tool_call_string(c, "path"));
    else if (e || r->exit_code != 0)
        guest_put_fail(c, r, e);
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

// Return the edits of the call: its own and those of `edits`; new reference.
static json_t *edits_of(const struct tool_call *c)
{
    static const char *const MEMBERS[] = {"old_text", "new_text", "replace_all"};
    json_t *all = json_array();
    json_t *own = json_object();
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++)
        if (json_object_get(c->args, MEMBERS[i]))
            json_object_set(own, MEMBERS[i], json_object_get(c->args, MEMBERS[i]));
    if (json_object_get(own, "old_text"))
        json_array_append(all, own);
    json_array_extend(all, json_object_get(c->args, "edits"));
    json_decref(own);
    return all;
}

static const char *code_of(const struct err *e)
{
    return e->code == ERR_CONFLICT    ? "not_unique"
           : e->code == ERR_INVALID   ? "invalid_argument"
           : e->code == ERR_TOO_LARGE ? "too_large"
                                      : "no_match";
}

// Add whole lines of the diff of one edit, as long as all of them together are not too long.
static void add_diff(struct buf *all, const struct buf *one)
{
    static const char GAP[] = "   ...\n";
    size_t room = all->len < DIFF_BYTES ? DIFF_BYTES - all->len : 0;
    size_t len = one->len;
    if (all->len && !str_ends(buf_str(all), GAP))
        buf_adds(all, GAP);
    while (len > room || (len > 0 && one->data[len - 1] != '\n'))
        len--;
    if (len > 0)
        buf_add(all, one->data, len);
    if (len < one->len && len > 0)
        buf_adds(all, GAP);
}

// Apply one edit to d->text.
static int apply(struct edited *d, const json_t *one, struct err *e)
{
    struct edit edit = {
        .old_text = text_string(one, "old_text"),
        .new_text = text_string(one, "new_text"),
        .all = json_is_true(json_object_get(one, "replace_all")),
        .max = FILE_BYTES_MAX,
    };
    struct edited next;
    if (edit_apply(&edit, buf_str(&d->text), d->text.len, &next, e) < 0) {
        edited_fini(&next);
        return -1;
    }
    buf_fini(&d->text);
    d->text = next.text;
    next.text = (struct buf)BUF_INIT;
    d->count += next.count;
    add_diff(&d->diff, &next.diff);
    edited_fini(&next);
    return 0;
}

// Apply the edits in order, all of them or none.
static void replace(struct tool_call *c, const char *data, size_t len)
{
    struct err e = ERR_INIT;
    struct edited *d = xcalloc(1, sizeof *d);
    json_t *edits = edits_of(c);
    size_t count = json_array_size(edits);
    size_t i = 0;
    buf_add(&d->text, data, len);
    while (i < count && apply(d, json_array_get(edits, i), &e) == 0)
        i++;
    json_decref(edits);
    if (i == count) {
        struct sha256 was = sha256_of(data, len);
        write_back(c, d, &was);
        return;
    }
    edited_free(d);
    if (count > 1)
        tool_call_fail(c, code_of(&e), "edit %zu of %zu: %s. No edit was applied", i + 1, count,
                       e.msg);
    else
        tool_call_fail(c, code_of(&e), "%s", e.msg);
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
        guest_file_fail(c, "read the file", e);
    else if (c->cancelled)
        tool_call_fail(c, "cancelled", "the call was cancelled");
    else
        replace(c, data, len);
}

static void start(struct tool_call *c)
{
    const char *old_text = tool_call_string(c, "old_text");
    const char *new_text = tool_call_string(c, "new_text");
    bool is_half = old_text ? !new_text : new_text && *new_text;
    if (is_half || (!old_text && !json_array_size(json_object_get(c->args, "edits")))) {
        tool_call_fail(c, "invalid_argument", "give old_text and new_text, or edits");
        return;
    }
    if (!old_text && json_is_true(json_object_get(c->args, "replace_all"))) {
        tool_call_fail(
            c, "invalid_argument",
            "replace_all has no effect on edits: set replace_all inside each entry of edits");
        return;
    }
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

const struct tool tool_edit_file = {
    .name = "edit_file", .start = start, .text = text_of, .uses = guest_put_uses};
