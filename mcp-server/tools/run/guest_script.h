// SPDX-License-Identifier: Apache-2.0
// A short shell script that runs in a sandbox for a tool. Tools use scripts for what envd's
// protocol lacks: a script is one round trip and works with any envd. The output is kept in memory.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "mcp-server/tools/call/tools.h"
#include "sandbox-backend/base/buf.h"

#define GUEST_SCRIPT_NO_PROGRAM 127 // the exit code of a command whose program is missing

#define GUEST_SCRIPT_ARGS_MAX 12
// Largest argument in bytes; Linux takes 128 KiB each.
#define GUEST_SCRIPT_ARG_BYTES ((size_t)96 << 10)

// The head of a script whose $1 is a path: sets `p` to the absolute path, relative to $HOME for
// "~".
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
    bool open_stdin; // stdin stays open and empty, so that a shell can wait on it
};

struct guest_result {
    int exit_code;   // -1: killed, or unknown
    bool timed_out;  // it was killed
    bool may_be_run; // with an error: it may have run, or may still be running
    struct buf out;
    struct buf err; // the first KiB
};

// The callback may take buffers from `r` during the call. `e`: the script did not run to its end;
// otherwise NULL, whatever its exit code.
typedef void (*guest_script_cb)(struct tool_call *c, struct guest_result *r, const struct err *e,
                                void *ctx);
// Run the script as the call's step (c->op). Call tool_call_client first. `cb` comes from the loop.
void guest_script_run(struct tool_call *c, const struct guest_script *s, guest_script_cb cb,
                      void *ctx);

// Return the first line of what a script wrote to stderr, without bash's "cubby: line 3: ";
// borrowed, *len bytes.
const char *guest_script_complaint(const struct buf *err, int *len);

// End the call for a failed script, with its error, its timeout or its stderr. `what` is static,
// such as "read the file".
void guest_script_fail(struct tool_call *c, const char *what, const struct guest_result *r,
                       const struct err *e);
