// SPDX-License-Identifier: Apache-2.0
// The tools that are offered, and one call of a tool from its arguments to its outcome.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "mcp-server/context/context.h"
#include "mcp-server/protocol/era.h"
#include "mcp-server/protocol/progress.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/client/client.h"

struct exchange;
struct tool_call;

struct tool {
    const char *name;
    void (*start)(struct tool_call *c); // arguments are valid; ends with tool_call_finish or _fail
    // Return the text of a result in the default profile, a new string. NULL: the tool's results
    // consist of content blocks only.
    char *(*text)(const json_t *structured);
    // Return what to do next, for the member `hint` of the structured result, which `text` says
    // too; static, or NULL for nothing. The function itself may be NULL.
    const char *(*hint)(const json_t *structured);
    // Return the thing that the call uses alone, in its sandbox (turn.h), a new string, or NULL for
    // none. The function itself may be NULL.
    char *(*uses)(const struct tool_call *c);
    // Return whether the operator's options allow the tool. NULL: always.
    bool (*is_allowed)(const struct config *config);
};

// A set of tools. `schemas` is a JSON array with their definitions, in the order of `tools`, which
// is that of tools/list. A definition is MCP's Tool, with the members of every revision.
struct tool_set {
    const char *schemas;
    size_t schemas_len;
    const struct tool *const *tools;
    size_t count;
    bool terse; // definitions are shortened in tools/list: see tools.c
};
extern const struct tool_set TOOLS; // the shipped ones

// A tool that this process offers to its clients.
struct offer {
    const struct tool *tool;
    const char *text; // its definition as JSON, `len` bytes of the set's
    size_t len;
    json_t *definition; // owned: `text` parsed, which tools_definition does; NULL before
    bool terse;
};

// Free what the first use of tools_find or tools_list has made.
void tools_fini(struct context *cx);

// Return the offered tool of this name, or NULL.
struct offer *tools_find(struct context *cx, const char *name);
// Return its definition, borrowed from the context. The first call for an offer parses it. Parsed
// definitions take ten times the memory of their text, and a session calls few of the tools.
const json_t *tools_definition(struct offer *offer);
// Return NULL when every name in --tools and --disable-tool is that of a tool or toolset. Otherwise
// return a new string for the user that names the unknown one and lists the known ones.
char *tools_complaint(const struct config *c);
// Return the array of tools/list for a caller, in the form of its `era`; new reference. The order
// is always the same. Clients that probe a server call the first tool without arguments, so the
// first tool only lists. `has_views`: the client shows views (protocol/apps.h), so tools name
// theirs.
json_t *tools_list(struct context *cx, const struct caller *caller, const struct era *era,
                   bool has_views);

// ---- one call
// The outcome of a call: `structured` or an error. `structured` follows the tool's outputSchema,
// and the text is made from it. A command that fails or times out is not an error of the tool.
struct outcome {
    const char *code;   // static: "sandbox_not_found"; NULL is success
    char *message;      // owned; with code: one sentence and what to do next
    json_t *structured; // owned; without code
    json_t *blocks;     // owned; content blocks beside the text, or NULL
    // Instead of all of the above: input_required of MCP 2026-07-28, an object with inputRequests,
    // requestState or both; owned.
    json_t *inputs;
    // Or an error of the protocol, which a model never sees: a code of jsonrpc.h, with `message`.
    int rpc_code;
    json_t *rpc_data; // owned, or NULL
};

struct tool_call {
    struct context *context; // borrowed
    const struct tool *tool;
    const json_t *schema;        // its definition; borrowed
    struct exchange *exchange;   // the request; for progress, logs and questions
    const struct caller *caller; // makes the call; borrowed
    json_t *args;                // owned; validated, defaults filled in
    const char *id;              // borrowed from args: sandbox_id, or NULL
    bool takes_progress;         // the client asked for progress
    struct progress *progress;   // borrowed; NULL: the client wants none, or the call has ended
    bool cancelled;              // the client no longer waits; start nothing new
    int64_t started_ms;          // clock_mono_ms
    int64_t bytes;               // moved or printed so far, for progress
    struct client_op *op;        // borrowed; the current step. NULL between steps
    // Set by a tool whose current step is not `op`, or must not be cut short; otherwise NULL.
    void (*on_cancel)(struct tool_call *c);
    void *state;               // the tool's
    struct turn *turn;         // of turn.h; NULL: none
    struct prepared *prepared; // of prepared.h, while the call waits there; NULL: it does not
    json_t *blocks;            // owned: content blocks of the result beside its text; NULL for none
    char *note;                // owned: follows the message when the call fails; NULL for none
    void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx);
    void *ctx;
};

// Make a call. `arguments` is borrowed and may be NULL. on_done is called once, and borrows the
// outcome for that call; `c` is freed after it.
struct tool_call *tool_call_new(struct context *cx, struct offer *offer, json_t *arguments,
                                struct exchange *x,
                                void (*on_done)(struct tool_call *c, struct outcome *o, void *ctx),
                                void *ctx);
// Start it. Invalid arguments end the call inside this function; everything else ends it from the
// loop.
void tool_call_start(struct tool_call *c);
// Cancel it. on_done follows, never inside this function.
void tool_call_cancel(struct tool_call *c);
char *tool_call_progress(const struct tool_call *c, int64_t seconds); // new string

// ---- for the tools
// End the call with a result. Takes `structured`; NULL: the result has content blocks only.
void tool_call_finish(struct tool_call *c, json_t *structured);
// Report what the user's program prints. Does nothing for a client that wants no progress.
void tool_call_output(struct tool_call *c, enum progress_stream stream, const char *data,
                      size_t len);
// Add a content block (MCP, server/tools) to the result, beside its text. Takes the block. An image
// is dropped unless the caller wants images inline.
void tool_call_add_block(struct tool_call *c, json_t *block);
// Add a resource_link block for a file in the call's sandbox; `path` must be absolute, the type may
// be NULL. Does nothing without --links, because many clients cannot read the block, and never in
// the miroflow profile, whose clients read one text.
void tool_call_add_link(struct tool_call *c, const char *path, const char *mime_type,
                        int64_t bytes);
// End the call with input_required, or with an error of the protocol; see struct outcome. `inputs`
// and `data` (may be NULL) are taken.
void tool_call_ask(struct tool_call *c, json_t *inputs);
void tool_call_refuse(struct tool_call *c, int rpc_code, json_t *data, const char *message);
// End the call with an error. `code` is static. The message says what to do next.
void tool_call_fail(struct tool_call *c, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// The same for the error of a client operation: code and advice follow from e->code. `what` is
// static, such as "upload the file". Copies *e.
void tool_call_fail_err(struct tool_call *c, const char *what, const struct err *e);
// Return how the caller wants images.
enum caller_images tool_call_images(const struct tool_call *c);
// Return `words` (static), which advise a model to use `tool`, or "" when `tool` is not offered.
const char *tool_call_hint(const struct tool_call *c, const char *tool, const char *words);
// Return the backend's client. Unless the backend moves a sandbox's end time on at each use, ask it
// to let the call's sandbox live at least `seconds` from now. NULL: the call has failed and is
// freed.
struct client *tool_call_client(struct tool_call *c, int64_t seconds);
// Note the sandbox's time to live, in seconds, for a backend that does not extend it at each use.
// This process then does so at each call, and forgets the time when it ends.
void tool_call_note_timeout(struct tool_call *c, const char *id, int64_t seconds);
// Return the time to live, in seconds, for a resume or fork of the call's sandbox. 0: the backend
// keeps the one that the sandbox has. For a backend that cannot keep it: the noted one, or the
// default.
int64_t tool_call_timeout(const struct tool_call *c);
const char *tool_call_string(const struct tool_call *c, const char *name); // borrowed; NULL: absent
int64_t tool_call_ms(const struct tool_call *c);                           // since its start
