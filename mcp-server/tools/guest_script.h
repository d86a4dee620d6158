// SPDX-License-Identifier: Apache-2.0
// A short shell script of ours, run in a sandbox for a tool, its output kept in memory. What tools
// do in a sandbox beyond envd's protocol is done so, in one round trip, and works with whichever
// envd there is.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "mcp-server/tools/tools.h"
#include "sandbox-backend/base/buf.h"

#define GUEST_SCRIPT_ARGS_MAX 12
// An argument's most bytes; Linux takes 128 KiB each.
#define GUEST_SCRIPT_ARG_BYTES ((size_t)96 << 10)

// The head of a script whose $1 is a path: `p` is it, absolute as the user means it.
#define GUEST_SCRIPT_PATH \
    "p=$1\n"              \
    "case $p in '~'|'~/'*) p=$HOME${p#?};; /*) ;; *) p=${PWD%/}/$p;; esac\n"

struct guest_script {
    const char *text;        // for bash -c
    const char *const *args; // $1 ...; NULL-terminated, at most GUEST_SCRIPT_ARGS_MAX
    const char *user;        // NULL: the sandbox's default
    const char *cwd;         // NULL: the user's home
    int64_t timeout_ms;
    size_t out_max;  // bytes of stdout that are kept
    bool open_stdin; // nothing comes there, and it does not end: what a shell can wait on
};

struct guest_result {
    int exit_code;   // -1 when it was killed, or is not known
    bool timed_out;  // and was killed
    bool may_be_run; // with an error: it may have run, or still run
    struct buf out;
    struct buf err; // the first KiB
};

// `r` is the receiver's to take from for the call. `e`: it did not run to an end; NULL otherwise,
// whatever its exit code.
typedef void (*guest_script_cb)(struct tool_call *c, struct guest_result *r, const struct err *e,
                                void *ctx);
// As the call's step (c->op). tool_call_client must have been called. `cb` comes from the loop.
void guest_script_run(struct tool_call *c, const struct guest_script *s, guest_script_cb cb,
                      void *ctx);

// Ends the call for a script that failed: by its error, its time-out, or else by what it said on
// stderr. `what` is static: "read the file".
void guest_script_fail(struct tool_call *c, const char *what, const struct guest_result *r,
                       const struct err *e);
