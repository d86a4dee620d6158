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
    char *hint;       // owned: what the network policy refused it; NULL: nothing that is known
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

void run_add_stdout(struct run *r, const char *data, size_t len);
void run_add_stderr(struct run *r, const char *data, size_t len);

// Starts the command with the call's `timeout`. When it could not run, or its fate is unknown, `r`
// is freed and the call fails; otherwise on_done.
void run_start(struct run *r, const struct run_spec *spec);
int64_t run_timeout_ms(const struct tool_call *c);
#define RUN_SLIDE_MARGIN_S \
    60 // how much longer than its timeout the sandbox of a run lives at least

// For what runs otherwise than by run_start: its ends, once. All that was printed has been added;
// timed_out and exit_code are set. The whole of what is too long to show is saved, what was refused
// to one that failed is asked for, then on_done.
void run_end(struct run *r, const char *status);
// It could not run. `what` is static. Frees `r`.
void run_fail(struct run *r, const char *what, const struct err *e);
// It began, or may have, and what became of it is not known. Frees `r`.
void run_fail_lost(struct run *r, const struct err *e);

// The members that both run tools have in their structured result; new reference.
json_t *run_structured(const struct run *r);
