// SPDX-License-Identifier: Apache-2.0
// Commands that outlive the call that starts them. Their whole state is in the sandbox, because
// each call may come to another process of this server. It is in /tmp/.cubby/<command id>, or in
// $CUBBY_COMMANDS/<command id> if envd's environment has that variable.
//
//   command       the command line
//   pid           the pids of the command, which leads a process group, and of its keeper
//   out.000000 .. its output, both streams as they come: files of BACKGROUND_SEGMENT bytes, of
//                 which the last two are kept. A cursor is an offset in the whole.
//   exit          its exit code, 128 + N for signal N; there when it has ended
//
// The files stay when the command has ended. Each start removes those of ended commands, except for
// the newest BACKGROUND_KEPT.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/run/guest_script.h"

#define BACKGROUND_SEGMENT 8388608
#define BACKGROUND_KEPT    20

// Return a new id for a command of `user` (NULL: the sandbox's default), a new string: 8 hex digits
// and "-USER", so that later calls act as the command's user.
char *background_new_id(const char *user);
// Return the user in the id, borrowed; NULL: the default.
const char *background_user(const char *id);
// Check the call's command_id. False: the call has failed and is freed.
bool background_check_id(struct tool_call *c);

// The keeper, a script for client_command: bash -c with the id and the command as arguments. It
// prints an empty line once the command is known, then the command's output, and exits with its
// code. It keeps running when the client leaves after the empty line. Exit BACKGROUND_NO_FILES:
// nothing was started, and stderr says why.
#define BACKGROUND_NO_FILES 39
// A part of a script: makes $t, the directory of commands and of named shells, or exits with
// BACKGROUND_NO_FILES. Every user can write to /tmp. So a link in place of the directory is not
// followed, and root takes over a directory of another user, so that this user cannot move root's
// files.
#define BACKGROUND_MAKE_PLACE                                                                 \
    "[ -d \"$t\" ] || why=$(mkdir -m 1777 -- \"$t\" 2>&1)\n" /* another call may be faster */ \
    "if [ -L \"$t\" ]; then echo \"$t is a symbolic link\" >&2; exit 39; fi\n"                \
    "if [ ! -d \"$t\" ]; then echo \"$why\" >&2; exit 39; fi\n"                               \
    "if [ $EUID = 0 ] && { [ ! -O \"$t\" ] || [ ! -k \"$t\" ]; }; then\n"                     \
    "    chown -h 0:0 -- \"$t\" && [ ! -L \"$t\" ] && chmod 1777 -- \"$t\" || exit 39\n"      \
    "fi\n"
extern const char BACKGROUND_RUN[];
// Scripts for guest_script_run, with open_stdin and the command's id as the first argument.
// background_scripts.c describes them.
extern const char BACKGROUND_READ[], BACKGROUND_STOP[], BACKGROUND_PID[];

// ---- reading
struct background_read {
    const char *id;
    int64_t cursor;   // < 0: from the end
    size_t max_bytes; // or one whole character
    int64_t wait_ms;
    bool is_new; // its keeper runs, but its files may not be there yet
};
struct background_page {
    bool is_running;
    bool is_lost; // it was killed together with its keeper, so its exit code is unknown
    int exit_code;
    int64_t from, next, total; // cursors of the page, of the next page, and of the end
    const char *data;          // borrowed
    size_t len;
};
// Complete a page that starts at p->from with `len` bytes at p->data, out of `total` bytes. An
// incomplete character at its end is left for the next page.
void background_page_end(struct background_page *p, size_t len, int64_t total);
// `p` is NULL when the call has failed and is freed. `ctx` is that of background_read.
typedef void (*background_page_cb)(struct tool_call *c, const struct background_page *p, void *ctx);
// Wait for new output or the end of the command, for wait_ms at most, and pass on a page. If the
// output ends inside a character, wait for the rest of it, and pass on the part when the time is
// over. So an empty page means that there is no new output. Call tool_call_client first.
void background_read(struct tool_call *c, const struct background_read *read, background_page_cb cb,
                     void *ctx);
// Return the members of a result with output: output, cursors, running, exit_code; new reference.
json_t *background_structured(const char *id, const struct background_page *p);
// End the call with the members of background_structured. When the command has failed, or its
// output reads like a network error, add the network hint. It covers refusals from `before_s`
// seconds before this call on.
void background_finish(struct tool_call *c, const char *id, const struct background_page *p,
                       int64_t before_s);
// Return the text of such a result: the output, then the command's state. New string.
char *background_text(const json_t *o);

// Send a signal to the command and its process group, and after grace_s KILL to what still runs.
// The script's output is that of BACKGROUND_STOP. Call tool_call_client first.
void background_stop(struct tool_call *c, const char *id, const char *signal, double grace_s,
                     guest_script_cb cb);
// Kill a command whose id no client will learn, then end the call as cancelled.
void background_abandon(struct tool_call *c, const char *id);
// End the call after a failed script about one command. Exit code 40 means that no command has that
// id; stdout then lists the ids that exist.
void background_fail(struct tool_call *c, const char *what, const struct guest_result *r,
                     const struct err *e);
