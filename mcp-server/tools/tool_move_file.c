// SPDX-License-Identifier: Apache-2.0
// move_file and delete_file: of files and directories of a sandbox, by a short script.
#include <string.h>

#include "mcp-server/text/text.h"
#include "mcp-server/tools/run/guest_script.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

#define TIMEOUT_MS 50000
#define OUT_BYTES  ((size_t)16384)

#define NOT_THERE 20 // exit codes of the scripts
#define IS_THERE  23
#define IS_NEEDED 24
#define IS_DIR    25

// Prints the absolute path. A name is there if it is a broken link, too. The root, a home and what
// holds a home are needed. The home of the default user is needed even when root acts.
#define HEAD                                         \
    GUEST_SCRIPT_PATH                                \
    "p=${p%/}; p=${p:-/}\n"                          \
    "there() { [ -e \"$1\" ] || [ -L \"$1\" ]; }\n"  \
    "there \"$p\" || exit 20\n"                      \
    "needed() {\n"                                   \
    "    [ -L \"$1\" ] && return 1\n"                \
    "    r=$(readlink -f -- \"$1\")\n"               \
    "    [ \"$r\" = / ] && return 0\n"               \
    "    for home in \"$HOME\" /home/user; do\n"     \
    "        case $(readlink -f -- \"$home\")/ in\n" \
    "        \"$r\"/*) return 0;;\n"                 \
    "        esac\n"                                 \
    "    done\n"                                     \
    "    return 1\n"                                 \
    "}\n"                                            \
    "if needed \"$p\"; then exit 24; fi\n"

// $2 is the new path.
static const char MOVE[] =
    HEAD "q=$2\n"
         "case $q in '~'|'~/'*) q=$HOME${q#?};; /*) ;; *) q=${PWD%/}/$q;; esac\n"
         "q=${q%/}\n"
         "[ -d \"${q:-/}\" ] && exit 25\n"
         "if there \"$q\"; then exit 23; fi\n"
         "made= up=${q%/*}\n" // the topmost directory that is missing, and goes again on failure
         "while [ \"$up\" ] && ! there \"$up\"; do made=$up up=${up%/*}; done\n"
         "fail() {\n"
         "    [ ! \"$made\" ] || find \"$made\" -depth -type d -empty -delete 2>/dev/null\n"
         "    exit $1\n"
         "}\n"
         "[ -d \"${q%/*}/\" ] || mkdir -p -- \"${q%/*}/\" || fail 1\n"
         "mv -nT -- \"$p\" \"$q\" || fail 1\n"
         "if there \"$p\"; then fail 23; fi\n" // another program was faster
         "printf '%s\\0%s\\0' \"$p\" \"$q\"\n";

static const char DELETE[] = HEAD "rm -rf -- \"$p\" || exit 1\n"
                                  "printf '%s\\0' \"$p\"\n";

static void fail(struct tool_call *c, const char *what, const struct guest_result *r,
                 const struct err *e)
{
    const char *path = tool_call_string(c, "path");
    if (!e && r->exit_code == NOT_THERE)
        tool_call_fail(c, "file_not_found", "there is no file or directory %s in the sandbox",
                       path);
    else if (!e && r->exit_code == IS_THERE)
        tool_call_fail(c, "file_exists", "%s already exists, and a move replaces nothing%s",
                       tool_call_string(c, "new_path"),
                       tool_call_hint(c, "delete_file", ": delete_file removes it"));
    else if (!e && r->exit_code == IS_NEEDED)
        tool_call_fail(c, "denied",
                       "%s is or holds the home directory, which cannot be moved or deleted", path);
    else if (!e && r->exit_code == IS_DIR)
        tool_call_fail(c, "is_a_directory",
                       "%s is a directory. Give the whole new path, with the name of the file",
                       tool_call_string(c, "new_path"));
    else
        guest_script_fail(c, what, r, e);
}

static void run(struct tool_call *c, const char *script, const char *more, guest_script_cb cb)
{
    const char *const args[] = {tool_call_string(c, "path"), more, NULL};
    if (!tool_call_client(c, TIMEOUT_MS / 1000))
        return;
    guest_script_run(c,
                     &(struct guest_script){
                         .text = script,
                         .args = args,
                         .user = tool_call_string(c, "user"),
                         .timeout_ms = TIMEOUT_MS,
                         .out_max = OUT_BYTES,
                     },
                     cb, NULL);
}

// ---- move_file

static void on_moved(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    (void)ctx;
    const char *path = buf_str(&r->out);
    if (e || r->exit_code != 0) {
        fail(c, "move the file", r, e);
        return;
    }
    size_t len = strlen(path) + 1;
    const char *new_path = len < r->out.len ? path + len : "";
    tool_call_finish(c, json_pack("{s:o, s:o}", "path", json_lossy_string(path, strlen(path)),
                                  "new_path", json_lossy_string(new_path, strlen(new_path))));
}

static void start_moving(struct tool_call *c)
{
    run(c, MOVE, tool_call_string(c, "new_path"), on_moved);
}

static char *text_of_move(const json_t *o)
{
    char *path auto_free = visible_text(text_string(o, "path"));
    char *new_path auto_free = visible_text(text_string(o, "new_path"));
    return str_printf("Moved %s to %s", path, new_path);
}

const struct tool tool_move_file = {
    .name = "move_file", .start = start_moving, .text = text_of_move};

// ---- delete_file

static void on_deleted(struct tool_call *c, struct guest_result *r, const struct err *e, void *ctx)
{
    (void)ctx;
    const char *path = buf_str(&r->out);
    if (e || r->exit_code != 0)
        fail(c, "delete the file", r, e);
    else
        tool_call_finish(c, json_pack("{s:o}", "path", json_lossy_string(path, strlen(path))));
}

static void start_deleting(struct tool_call *c)
{
    run(c, DELETE, NULL, on_deleted);
}

static char *text_of_deletion(const json_t *o)
{
    char *path auto_free = visible_text(text_string(o, "path"));
    return str_printf("Deleted %s", path);
}

const struct tool tool_delete_file = {
    .name = "delete_file", .start = start_deleting, .text = text_of_deletion};
