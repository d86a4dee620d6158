// SPDX-License-Identifier: Apache-2.0
// Running the programs that a template build is made of (mmdebstrap, mke2fs, qemu-img ...), one at
// a time, and being interrupted while one runs.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct tool {
    const char *const *argv; // argv[0] is looked for on PATH, then in /usr/sbin and /sbin
    const char *package;     // the Debian package that has it, for the message when it is missing
    const char *const *env;  // "NAME=value" ..., NULL: added to the tool's environment; or NULL
    const char *cwd;         // or NULL
    int out;                 // its stdout
    int log;                 // its stderr
    int keep;                // a descriptor that it and its children inherit, or -1
    bool own_mounts;         // a mount namespace of its own where the host allows that
    int timeout_ms;          // after which it is ended; 0 is none
    void (*tick)(void *ctx); // called a few times a second while it runs; or NULL
    void *ctx;
};

// Runs it to its end. 0: it ended with status 0. ERR_NOT_FOUND: it is not installed (the message
// names the package). ERR_CANCELED: tool_interrupted became true; it and its process group were
// asked to stop, then killed. ERR_TIMEOUT: the same because of timeout_ms. Otherwise the message
// has its status or signal.
int tool_run(const struct tool *tool, struct err *e);

// Runs a program quickly and collects what it prints (at most `max` bytes); stderr goes nowhere.
int tool_output(const char *const *argv, const char *package, size_t max, struct buf *out,
                struct err *e);

// Path of a program: new string, or NULL with ERR_NOT_FOUND that names the package to install.
char *tool_find(const char *name, const char *package, struct err *e);

// From tool_watch_signals on, SIGINT, SIGTERM and SIGHUP make tool_interrupted true instead of
// ending the program; tool_unwatch_signals brings the previous behaviour back.
void tool_watch_signals(void);
void tool_unwatch_signals(void);
bool tool_interrupted(void);
