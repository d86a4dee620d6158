// SPDX-License-Identifier: Apache-2.0
// The tools: what is offered, and one call from its arguments to its outcome.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/config.h"
#include "mcp-server/era.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/client.h"

struct local_dirs;
struct http_client;
struct text_profile;
struct tool_call;

enum tool_kind {
    TOOL_RUN_COMMAND,
    TOOL_RUN_PYTHON_CODE,
    TOOL_CREATE_SANDBOX,
    TOOL_UPLOAD,
    TOOL_DOWNLOAD_INTERNET,
    TOOL_DOWNLOAD_LOCAL,
};

struct tool {
    enum tool_kind kind;
    const char *name;
    void (*start)(struct tool_call *c); // arguments are valid; ends with tool_call_finish or _fail
};

// What all calls of this process share. Nothing of it is made before it is needed: most processes
// live for one call, and some only for a list of the tools.
struct toolbox {
    uv_loop_t *loop;
    const struct config *config;     // borrowed
    const struct text_profile *text; // static
    json_t *schemas;                 // schemas/tools.json; NULL until needed
    struct client *client;           // the same
    struct http_client *http;        // the same
    struct local_dirs *dirs;         // the same
};

void toolbox_init(struct toolbox *t, uv_loop_t *loop, const struct config *config);
void toolbox_close(struct toolbox *t); // asynchronous; the loop ends when all is closed
void toolbox_fini(struct toolbox *t);  // after the loop
struct client *toolbox_client(struct toolbox *t, struct err *e); // NULL with `e`
struct http_client *toolbox_http(struct toolbox *t);
struct local_dirs *toolbox_dirs(struct toolbox *t, struct err *e); // NULL with `e`

// NULL when there is no such tool, or it is disabled.
const struct tool *tools_find(struct toolbox *t, const char *name);
// The array of tools/list as `era` knows it, in an order that never changes; new reference. The
// first tool does nothing when it is called without arguments, as clients that probe do.
json_t *tools_list(struct toolbox *t, const struct era *era);

// ---- one call
// What a call came to: `structured`, which follows the tool's outputSchema and which the text is
// made from; or an error. How a command ended, be it by its time-out, is not an error of the tool.
struct outcome {
    const char *code;   // static: "sandbox_not_found"; NULL is success
    char *message;      // owned; with code: one sentence and what to do next
    json_t *structured; // owned; without code
};

struct tool_call {
    struct toolbox *toolbox; // borrowed
    const struct tool *tool;
    json_t *args;         // owned; validated, defaults filled in
    const char *id;       // borrowed from args: sandbox_id, or NULL
    bool takes_progress;  // the client asked for progress
    bool cancelled;       // nobody waits for the outcome; start nothing new
    int64_t started_ms;   // clock_mono_ms
    int64_t bytes;        // moved or printed so far, for progress
    struct client_op *op; // borrowed; the step that runs. NULL between steps
    // Set by a tool whose step is not `op`, or must not be cut short; else NULL.
    void (*on_cancel)(struct tool_call *c);
    void *state; // the tool's
    char *note;  // owned: follows the message when the call fails; NULL for none
    void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx);
    void *ctx;
};

// `arguments` is borrowed and may be NULL. on_done is called once, its outcome borrowed for the
// call; `c` is gone after it.
struct tool_call *tool_call_new(struct toolbox *t, const struct tool *tool, json_t *arguments,
                                bool takes_progress,
                                void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx),
                                void *ctx);
// Bad arguments end the call inside this one; everything else comes from the loop.
void tool_call_start(struct tool_call *c);
// on_done follows, never inside this call.
void tool_call_cancel(struct tool_call *c);
char *tool_call_progress(const struct tool_call *c, int64_t seconds); // new string

// ---- for the tools
void tool_call_finish(struct tool_call *c, json_t *structured); // takes structured
// `code` is static. The message says what to do next.
void tool_call_fail(struct tool_call *c, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The same for what a client operation gave: the code and the advice follow from e->code. `what`
// is static: "upload the file". Copies *e.
void tool_call_fail_err(struct tool_call *c, const char *what, const struct err *e);
// The client, with the sandbox's life extended to last for `seconds` more at least. NULL: the
// call has failed and is gone.
struct client *tool_call_client(struct tool_call *c, int64_t seconds);
const char *tool_call_string(const struct tool_call *c, const char *name); // borrowed; NULL: absent
int64_t tool_call_ms(const struct tool_call *c);                           // since it began

// The six (tool_*.c).
void tool_run_command(struct tool_call *c);
void tool_run_python_code(struct tool_call *c);
void tool_create_sandbox(struct tool_call *c);
void tool_upload(struct tool_call *c);
void tool_download_internet(struct tool_call *c);
void tool_download_local(struct tool_call *c);
