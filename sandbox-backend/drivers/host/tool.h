// SPDX-License-Identifier: Apache-2.0
// Run a program to its end, blocking, with a deadline and an interruption. Template builds run
// mmdebstrap, mke2fs, qemu-img and others in this way.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct tool {
    const char *const *argv; // argv[0] is looked for on PATH, then in /usr/sbin and /sbin
    const char *package;     // Debian's package that has it, for the message when it is missing
    const char *const *env;  // "NAME=value" ..., NULL: added to the tool's environment; or NULL
    const char *cwd;         // or NULL
    int in;                  // its stdin; 0: /dev/null
    int out;                 // its stdout
    int log;                 // its stderr
    int keep;                // a descriptor that it and its children inherit, or -1
    bool keeps_pip;          // pip's settings pass to it, from the user's environment
    bool own_mounts;         // a mount namespace of its own where the host allows that
    int timeout_ms;          // the tool is ended after this time; 0: no limit
    // The tool is ended when this returns true; asked a few times a second. Or NULL.
    bool (*has_stalled)(void *ctx);
    void (*tick)(void *ctx); // called a few times a second while it runs; or NULL
    void *ctx;
};

// Run the tool to its end. Return 0 if it ended with status 0. ERR_NOT_FOUND: it is not installed,
// and the message names the package. ERR_CANCELED: tool_interrupted became true, and its process
// group was asked to stop, then killed. ERR_TIMEOUT: the same after timeout_ms or a stall. On any
// other failure the message has the status or the signal.
int tool_run(const struct tool *tool, struct err *e);

// Run another tool with the settings of `like`, except its argv and package.
int tool_run_like(const struct tool *like, const char *const *argv, const char *package,
                  struct err *e);

// Run a quick program and append its output (at most `max` bytes) to `out`. Drops its stderr.
int tool_output(const char *const *argv, const char *package, size_t max, struct buf *out,
                struct err *e);

// Return the path of a program as a new string, or NULL with ERR_NOT_FOUND, which names the package
// to install.
char *tool_find(const char *name, const char *package, struct err *e);

// After tool_watch_signals, SIGINT, SIGTERM and SIGHUP make tool_interrupted true instead of ending
// this program. tool_unwatch_signals restores the previous behaviour. Pairs may be nested.
void tool_watch_signals(void);
void tool_unwatch_signals(void);
bool tool_interrupted(void);
