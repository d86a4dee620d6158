// SPDX-License-Identifier: Apache-2.0
// A command that a tool runs in a sandbox. It never runs twice, and its output is bounded.
#pragma once
#include "mcp-server/tools/call/tools.h"
#include "mcp-server/tools/run/output.h"

struct run {
    struct tool_call *call; // borrowed
    struct output out, err;
    bool timed_out;
    int exit_code;    // -1 when it did not exit by itself
    char *status;     // owned: "exit status 3", "signal: killed"
    char *hint;       // owned: what the network refused meanwhile; NULL: nothing known
    char *out_path;   // owned: where all of a cut stdout is in the sandbox; NULL when nowhere
    char *err_path;   // the same for stderr
    const char *user; // borrowed from the call's arguments, or NULL
    // Gets the bytes of stderr first, and passes those of the user's command on with
    // run_add_stderr. NULL: all bytes are the command's.
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

// Start the command with the call's `timeout`. On its end call on_done. When it cannot run, or its
// fate is unknown, free `r` and fail the call.
void run_start(struct run *r, const struct run_spec *spec);
int64_t run_timeout_ms(const struct tool_call *c);
#define RUN_ARGUMENT_MAX ((size_t)131071) // bytes; Linux: MAX_ARG_STRLEN, with the NUL
// Return whether each variable of the argument `envs` can be passed to a program. If not, the call
// has failed.
bool run_envs_fit(struct tool_call *c);
// Return the argument `envs`, a list of "name=value", as an object; new reference, or NULL.
json_t *run_envs(const struct tool_call *c);
// A run's sandbox lives at least this much longer than the run's timeout.
#define RUN_SLIDE_MARGIN_S 60

// End a run that run_start did not start. Call it once. All output has been added, and timed_out
// and exit_code are set. Saves long output, asks what the network refused if that may matter, then
// calls on_done.
void run_end(struct run *r, const char *status);
// Fail the call: the command could not run. `what` is static. Frees `r`.
void run_fail(struct run *r, const char *what, const struct err *e);
// Fail the call: the command may have run, and its fate is unknown. Frees `r`.
void run_fail_lost(struct run *r, const struct err *e);

// Return the members of the structured result that both run tools have; new reference.
json_t *run_structured(const struct run *r);
