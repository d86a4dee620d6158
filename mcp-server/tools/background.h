// SPDX-License-Identifier: Apache-2.0
// Commands that outlive the call that starts them. All there is to know of one is in the sandbox,
// in /tmp/.cubby/<command id> ($CUBBY_COMMANDS/<command id> where envd's environment has that):
// this process may be another at each call.
//
//   command       what is run
//   pid           of the command, which leads a process group of its own; and of its keeper
//   out.000000 .. its output, both streams as they come: files of BACKGROUND_SEGMENT bytes, of
//                 which the last two are kept. A cursor is an offset in the whole.
//   exit          its exit code, 128 + N for signal N; there when it has ended
//
// They stay when the command has ended; a start removes all but the newest BACKGROUND_KEPT of
// those.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mcp-server/tools/guest_script.h"
#include "mcp-server/tools/tools.h"

#define BACKGROUND_SEGMENT 8388608
#define BACKGROUND_KEPT    20

// A new id for a command of `user`, NULL for the sandbox's default; new string: 8 hex digits, and
// "-USER", so that whoever has the id can act as the command's user.
char *background_new_id(const char *user);
// The user that is a part of the id, borrowed; NULL: the default.
const char *background_user(const char *id);
// What the call's command_id says, if it can be one. False: the call has failed and is gone.
bool background_check_id(struct tool_call *c);

// The keeper, for client_command: run by bash -c with the id and the command as arguments. It gives
// a line end, the command's output and its exit code while it is listened to, and goes on when it
// is left after that. Exit BACKGROUND_NO_PLACE without that: nothing was started, and stderr says
// why.
#define BACKGROUND_NO_PLACE 39
extern const char BACKGROUND_RUN[];
// For guest_script_run with open_stdin, and the id as the first argument; see there.
extern const char BACKGROUND_READ[], BACKGROUND_STOP[], BACKGROUND_PID[];

// ---- reading
struct background_read {
    const char *id;
    int64_t cursor;   // < 0: from the end
    size_t max_bytes; // and what a first character has beyond that
    int64_t wait_ms;
};
struct background_page {
    bool is_running;
    bool is_lost; // it does not run, and did not end as it should: killed with its keeper
    int exit_code;
    int64_t from, next, total; // cursors of what follows, of what comes then, and of the end
    const char *data;          // borrowed
    size_t len;
};
// Makes of what was printed from p->from on, of `total` bytes in all, a page: p->data has `len`.
// What ends in the middle of a character leaves that one for the next.
void background_page_end(struct background_page *p, size_t len, int64_t total);
// `p` is NULL when the call has failed, and is gone then. `ctx` as in background_read.
typedef void (*background_page_cb)(struct tool_call *c, const struct background_page *p, void *ctx);
// Waits for more output than is known, or the end, for wait_ms at most; for the rest of a character
// too. What of one does not come in that time is given as it is, so a page that is empty says that
// there is nothing. tool_call_client must have
// been called.
void background_read(struct tool_call *c, const struct background_read *read, background_page_cb cb,
                     void *ctx);
// The members of the results that show output: output, cursors, running, exit_code; new reference.
json_t *background_structured(const char *id, const struct background_page *p);
// Ends the call with them; when the command has failed, with what was refused to the sandbox
// lately. `before_s`: how long before this call the command may have run.
void background_finish(struct tool_call *c, const char *id, const struct background_page *p,
                       int64_t before_s);
// Output, and then what is known of the command.
char *background_text(const json_t *o);

// Ends a command that nobody will hear of, with KILL, and then the call, as cancelled.
void background_abandon(struct tool_call *c, const char *id);
// Ends the call for a script about one command: exit 40 is that there is none of that id, with
// those that there are on stdout.
void background_fail(struct tool_call *c, const char *what, const struct guest_result *r,
                     const struct err *e);
