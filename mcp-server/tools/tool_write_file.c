// SPDX-License-Identifier: Apache-2.0
// write_file: text or base64 into a file of a sandbox, as its content or at its end.
#include <stdio.h>
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/files/guest_put.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

// $4 is write or append. Prints "<1 if the file existed> <size, or - for the number of given bytes>
// <path>\0". It uses only the shell where possible, because each program costs as much as
// everything else. After a write, the position of a file opened for appending is its end.
//
// A file is written in place, which keeps its links, owner and mode. If a write fails, the file has
// its old content, and a new file is removed. For that, the shell remembers a text that is not
// large. Else a file beside it first takes the new content: then there is room for it. If there is
// not, or no file can be made there, `overwrite` needs less.
#define REMEMBERED "262144" // bytes
static const char SCRIPT[] = GUEST_PUT_HEAD GUEST_PUT_OVERWRITE
    "if [ -d \"$p\" ]; then exit 21; fi\n"
    "case $p in */|*/.|*/..) exit 23;; esac\n"
    "name=$p old=0 now=- was=\n"
    "if [ -e \"$p\" ]; then old=1; [ -f \"$p\" ] || exit 22; fi\n"
    "[ -d \"${p%/*}/\" ] || mkdir -p -- \"${p%/*}/\" || exit 1\n"
    "if [ -L \"$p\" ] && t=$(readlink -f -- \"$p\" && echo .); then p=${t%??}; fi\n"
    "t=${p%/*}/.cubby-$$-$RANDOM\n"
    "spare() {\n"
    "    umask 077\n" // no other file is made after this
    "    set -C\n"
    "    : >\"$t\" || { set +C; return 1; }\n"
    "    set +C\n"
    "    put >\"$t\" || { rm -f -- \"$t\"; return 1; }\n"
    "}\n"
    "if [ $4 = append ]; then\n"
    "    exec 3>>\"$p\" || exit 1\n"
    "    put >&3 || exit 24\n"
    "    read -r _ now </proc/$$/fdinfo/3\n"
    "    [ \"$now\" != 0 ] || now=$(stat -L -c %s -- \"$p\")\n"
    "elif [ ! -s \"$p\" ] ||\n"
    "    { [ -r \"$p\" ] && ! IFS= LC_ALL=C read -r -d '' -n " REMEMBERED " was <\"$p\"; }; then\n"
    "    exec 3>\"$p\" || exit 1\n"
    "    if ! put >&3; then\n"
    "        if [ $old = 0 ]; then rm -f -- \"$p\"; exit 1; fi\n"
    "        printf %s \"$was\" >\"$p\" || exit 24\n"
    "        exit 1\n"
    "    fi\n"
    "elif spare 2>/dev/null; then\n"
    "    exec 3>\"$p\" || { rm -f -- \"$t\"; exit 1; }\n"
    "    if ! put >&3; then\n" // another program took the room
    "        cp --attributes-only --preserve=all -- \"$p\" \"$t\"\n"
    "        mv -f -- \"$t\" \"$p\" || { rm -f -- \"$t\"; exit 24; }\n"
    "    else\n"
    "        rm -f -- \"$t\"\n"
    "    fi\n"
    "else\n"
    "    overwrite || exit\n"
    "fi\n"
    "printf '%s %s %s\\0' $old \"$now\" \"$name\"\n";

static bool is_append(const struct tool_call *c)
{
    return json_is_true(json_object_get(c->args, "append"));
}

static void finish(struct tool_call *c, const struct buf *out, int64_t given)
{
    int old;
    char size[24];
    int64_t now = given;
    int at = 0;
    if (sscanf(buf_str(out), "%d %23s %n", &old, size, &at) != 2 || !at ||
        (!str_eq(size, "-") && !str_to_int(size, 0, INT64_MAX, &now))) {
        tool_call_fail(c, "failed",
                       "the file was written, but the sandbox did not report its size");
        return;
    }
    const char *path = buf_str(out) + at;
    json_t *o = json_object();
    json_object_set_new(o, "path", json_lossy_string(path, strlen(path)));
    json_object_set_new(o, "size", json_integer(now));
    json_object_set_new(o, "existed", json_boolean(old));
    json_object_set_new(o, "appended", json_boolean(is_append(c)));
    tool_call_add_link(c, path, NULL, now);
    tool_call_finish(c, o);
}

static void on_end(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    int64_t given = (int64_t)(intptr_t)ctx;
    if (!e && r->exit_code == 21)
        tool_call_fail(c, "is_a_directory", "%s is a directory", tool_call_string(c, "path"));
    else if (!e && r->exit_code == 23)
        tool_call_fail(c, "is_a_directory",
                       "the path %s names a directory. Add the name of the file to it",
                       tool_call_string(c, "path"));
    else if (!e && r->exit_code == 22) // opening a FIFO waits for a reader
        tool_call_fail(c, "not_a_file", "%s is not a regular file", tool_call_string(c, "path"));
    else if (e || r->exit_code != 0)
        guest_put_fail(c, r, e);
    else
        finish(c, &r->out, given);
}

static void start(struct tool_call *c)
{
    const char *content = tool_call_string(c, "content");
    struct buf bytes auto_buf = BUF_INIT;
    if (!str_eq(tool_call_string(c, "encoding"), "base64")) {
        buf_adds(&bytes, content);
    } else if (!base64_decode(&bytes, content, strlen(content))) {
        tool_call_fail(c, "invalid_argument", "argument 'content' is not valid base64");
        return;
    }
    if (!tool_call_client(c, 60))
        return;
    guest_put_run(c,
                  &(struct guest_put){
                      .script = SCRIPT,
                      .path = tool_call_string(c, "path"),
                      .more = is_append(c) ? "append" : "write",
                      .user = tool_call_string(c, "user"),
                      .data = buf_str(&bytes),
                      .len = bytes.len,
                  },
                  on_end, (void *)(intptr_t)bytes.len);
}

static char *text_of(const json_t *o)
{
    bool existed = json_is_true(json_object_get(o, "existed"));
    bool appended = json_is_true(json_object_get(o, "appended"));
    char *path auto_free = visible_text(text_string(o, "path"));
    return str_printf("%s %s (%lld bytes)",
                      !existed   ? "Created"
                      : appended ? "Appended to"
                                 : "Replaced",
                      path, text_int(o, "size"));
}

const struct tool tool_write_file = {
    .name = "write_file", .start = start, .text = text_of, .uses = guest_put_uses};
