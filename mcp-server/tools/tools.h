// SPDX-License-Identifier: Apache-2.0
// The tools: what is offered, and one call from its arguments to its outcome.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/config.h"
#include "mcp-server/protocol/era.h"
#include "mcp-server/protocol/progress.h"
#include "mcp-server/tools/owner.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/client.h"

struct exchange;
struct http_client;
struct local_dirs;
struct quota_claim;
struct text_profile;
struct tool_call;

struct tool {
    const char *name;
    void (*start)(struct tool_call *c); // arguments are valid; ends with tool_call_finish or _fail
    // The text of a result in the default profile, a new string. NULL: what the tool gives is
    // content blocks alone.
    char *(*text)(const json_t *structured);
};

// Tools, and a JSON array with the definition of each (MCP's Tool, all that any revision has), in
// the order in which they are listed.
struct tool_set {
    const char *schemas;
    size_t schemas_len;
    const struct tool *const *tools;
    size_t count;
    bool terse; // what only guards us is not shown: see tools.c
};
extern const struct tool_set TOOLS; // the shipped ones

// A tool that is offered.
struct offer {
    const struct tool *tool;
    const json_t *schema; // its definition; borrowed from the toolbox
    bool terse;
};

// What all calls of this process share. Nothing of it is made before it is needed: most processes
// live for one call, and some only for a list of the tools.
struct toolbox {
    uv_loop_t *loop;
    const struct config *config;     // borrowed
    const struct text_profile *text; // static
    struct offer *offers;            // owned; NULL until needed
    size_t offer_count;
    json_t *schemas;            // array of arrays, which the offers point into
    struct client *client;      // the same
    struct http_client *http;   // the same
    struct local_dirs *dirs;    // the same
    struct owner_known known;   // see owner.h
    struct quota_claim *claims; // see quota.h
    // Both in place while they are needed only: subscriber.c, sandbox_watch.c.
    struct subscriber *subscribers;
    struct dir_watch *dir_watches;
};

void toolbox_init(struct toolbox *t, uv_loop_t *loop, const struct config *config);
void toolbox_close(struct toolbox *t); // asynchronous; the loop ends when all is closed
void toolbox_fini(struct toolbox *t);  // after the loop
struct client *toolbox_client(struct toolbox *t, struct err *e); // NULL with `e`
struct http_client *toolbox_http(struct toolbox *t);
struct local_dirs *toolbox_dirs(struct toolbox *t, struct err *e); // NULL with `e`

// Ids are issued, and models invent some: what cannot be one is told apart from what is unknown.
bool toolbox_id_is_plausible(const struct toolbox *t, const char *id);

// NULL when there is no such tool, or it is not offered.
const struct offer *tools_find(struct toolbox *t, const char *name);
// NULL when all names in --tools and --disable-tool are those of tools or toolsets; else a new
// string for the user, which lists those that there are.
char *tools_complaint(const struct config *c);
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
    json_t *blocks;     // owned; content blocks beside the text, or NULL
    // Instead of all of the above: MCP 2026-07-28's input_required, an object with inputRequests
    // and/or requestState; owned.
    json_t *inputs;
    // Or an error of the protocol, which a model never sees: a code of jsonrpc.h, with message.
    int rpc_code;
    json_t *rpc_data; // owned, or NULL
};

struct tool_call {
    struct toolbox *toolbox; // borrowed
    const struct tool *tool;
    const json_t *schema;        // its definition; borrowed
    struct exchange *exchange;   // what is answered with it; for progress, logs and questions
    const struct caller *caller; // on whose behalf; borrowed
    json_t *args;                // owned; validated, defaults filled in
    const char *id;              // borrowed from args: sandbox_id, or NULL
    bool takes_progress;         // the client asked for progress
    struct progress *progress;   // borrowed; NULL: nobody wants to hear, or not any more
    bool cancelled;              // nobody waits for the outcome; start nothing new
    int64_t started_ms;          // clock_mono_ms
    int64_t bytes;               // moved or printed so far, for progress
    struct client_op *op;        // borrowed; the step that runs. NULL between steps
    // Set by a tool whose step is not `op`, or must not be cut short; else NULL.
    void (*on_cancel)(struct tool_call *c);
    void *state;    // the tool's
    json_t *blocks; // owned: content blocks of the result beside its text; NULL for none
    char *note;     // owned: follows the message when the call fails; NULL for none
    void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx);
    void *ctx;
};

// `arguments` is borrowed and may be NULL. on_done is called once, its outcome borrowed for the
// call; `c` is gone after it.
struct tool_call *tool_call_new(struct toolbox *t, const struct offer *offer, json_t *arguments,
                                struct exchange *x,
                                void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx),
                                void *ctx);
// Bad arguments end the call inside this one; everything else comes from the loop.
void tool_call_start(struct tool_call *c);
// on_done follows, never inside this call.
void tool_call_cancel(struct tool_call *c);
char *tool_call_progress(const struct tool_call *c, int64_t seconds); // new string

// ---- for the tools
// Takes `structured`; NULL: the blocks are all there is.
void tool_call_finish(struct tool_call *c, json_t *structured);
// What the user's program prints, for a client that asked for progress; may be called always.
void tool_call_output(struct tool_call *c, enum progress_stream stream, const char *data,
                      size_t len);
// A content block (MCP, server/tools) beside the text of the result: before it, or after it for a
// link; taken.
void tool_call_add_block(struct tool_call *c, json_t *block);
// One that links to a file in the call's sandbox, absolute; the type may be NULL. The miroflow
// profile has none: its clients read one text.
void tool_call_add_link(struct tool_call *c, const char *path, const char *mime_type,
                        int64_t bytes);
// The two other ends: see struct outcome. `inputs` and `data` (may be NULL) are taken.
void tool_call_ask(struct tool_call *c, json_t *inputs);
void tool_call_refuse(struct tool_call *c, int rpc_code, json_t *data, const char *message);
// `code` is static. The message says what to do next.
void tool_call_fail(struct tool_call *c, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The same for what a client operation gave: the code and the advice follow from e->code. `what`
// is static: "upload the file". Copies *e.
void tool_call_fail_err(struct tool_call *c, const char *what, const struct err *e);
// `words`, static, about another tool: "" when that is not offered, for then it is no advice.
const char *tool_call_hint(const struct tool_call *c, const char *tool, const char *words);
// The client, with the sandbox's life extended to last for `seconds` more at least. NULL: the
// call has failed and is gone.
struct client *tool_call_client(struct tool_call *c, int64_t seconds);
const char *tool_call_string(const struct tool_call *c, const char *name); // borrowed; NULL: absent
int64_t tool_call_ms(const struct tool_call *c);                           // since it began

// ---- the shipped tools, one file each (tool_*.c)
extern const struct tool TOOL_LIST_SANDBOXES, TOOL_CREATE_SANDBOX, TOOL_KILL_SANDBOX;
extern const struct tool TOOL_RUN_COMMAND, TOOL_RUN_PYTHON_CODE;
extern const struct tool TOOL_START_COMMAND, TOOL_READ_OUTPUT, TOOL_SEND_INPUT, TOOL_STOP_COMMAND;
extern const struct tool TOOL_READ_FILE, TOOL_WRITE_FILE, TOOL_EDIT_FILE, TOOL_LIST_FILES;
extern const struct tool TOOL_PAUSE_SANDBOX, TOOL_RESUME_SANDBOX, TOOL_SNAPSHOT_SANDBOX;
extern const struct tool TOOL_ROLLBACK_SANDBOX, TOOL_FORK_SANDBOX, TOOL_DELETE_SNAPSHOT;
extern const struct tool TOOL_EXPOSE_PORT;
extern const struct tool TOOL_UPLOAD, TOOL_DOWNLOAD_INTERNET, TOOL_DOWNLOAD_LOCAL;
