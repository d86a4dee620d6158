// SPDX-License-Identifier: Apache-2.0
// Running one command in a sandbox for a tool, exactly once, with its output kept in bounds.
#pragma once
#include "mcp-server/tools/output.h"
#include "mcp-server/tools/tools.h"

struct run {
    struct tool_call *call; // borrowed
    struct output out, err;
    bool timed_out;
    int exit_code;    // -1 when it did not exit by itself
    char *status;     // owned: "exit status 3", "signal: killed"
    char *out_path;   // owned: where all of a cut stdout is in the sandbox; NULL when nowhere
    char *err_path;   // the same for stderr
    const char *user; // borrowed from the call's arguments, or NULL
    // Takes stderr's bytes first; passes on with run_add_stderr what is the user's. NULL: none.
    void (*filter)(struct run *r, const char *data, size_t len);
    void (*on_done)(struct run *r); // must end with run_free and the call's end
    void (*on_free)(struct run *r); // frees ctx; NULL: nothing to free
    void *ctx;                      // the tool's
};

struct run_spec {
    const char *cmd;
    const char *const *args; // NULL-terminated
    json_t *envs;            // borrowed, or NULL
    const char *cwd;
};

struct run *run_new(struct tool_call *c);
void run_free(struct run *r);

void run_add_stderr(struct run *r, const char *data, size_t len);

// Starts the command with the call's `timeout`. When it could not run, or its fate is unknown, `r`
// is freed and the call fails; otherwise on_done.
void run_start(struct run *r, const struct run_spec *spec);
int64_t run_timeout_ms(const struct tool_call *c);

// The members that both run tools have in their structured result; new reference.
json_t *run_structured(const struct run *r);
