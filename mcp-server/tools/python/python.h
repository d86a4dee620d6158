// SPDX-License-Identifier: Apache-2.0
// The two ways to run code for a tool: in the sandbox's Python kernel, where variables persist and
// other languages are possible, and in a fresh Python, for a sandbox without a kernel.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "mcp-server/text/excerpt.h"
#include "mcp-server/tools/run/run.h"
#include "sandbox-backend/base/buf.h"

#define PYTHON_LANGUAGE    "python"
#define PYTHON_CONTEXT_MAX 64          // characters of a context's name
#define PYTHON_FIGURES_DIR "~/figures" // "~" is the home of the kernel's user

// The status of code that timed out before the kernel began to run it.
#define PYTHON_NOT_RUN "not run: the Python kernel was busy"

// Run the code and end the call. Its arguments are those of run_python_code, or of run_code.
void python_fresh_start(struct tool_call *c);
// When nothing listens at the kernel's port in the sandbox, call `on_no_kernel` instead: no code
// has run, and the call is unchanged.
void python_kernel_start(struct tool_call *c, void (*on_no_kernel)(struct tool_call *c));

// Return whether `name` is valid for a context.
bool python_context_is_valid(const char *name);

// ---- a fresh interpreter, and the record with which it reports the end

// The program that `python3 -c` is given, with three arguments: the mark, "code" or "file", and
// the code or the path of a file that holds it (and is removed). It runs the code as __main__,
// with top-level await, and at the very end writes to stderr
//   0x1e <mark> {"result": repr of the last expression, "error": {"name","value","traceback"}} \n
// with only the members that apply.
extern const char PYTHON_RUNNER[];

#define PYTHON_MARK_BYTES 32 // hex digits, random for each run

// Takes that record out of stderr as its bytes arrive, however they are split.
struct python_record {
    char mark[1 + PYTHON_MARK_BYTES + 1]; // 0x1e and the mark
    size_t matched;                       // bytes of `mark` seen, and held back
    bool inside;
    struct buf text;
    void (*pass)(const char *data, size_t len, void *ctx);
    void *ctx;
};
// Pass everything but the record on to `pass`.
void python_record_init(struct python_record *r,
                        void (*pass)(const char *data, size_t len, void *ctx), void *ctx);
void python_record_fini(struct python_record *r);
void python_record_feed(struct python_record *r, const char *data, size_t len);
// After the last byte: return the record as a new object, or NULL when it is missing or incomplete.
json_t *python_record_end(struct python_record *r);

// ---- the kernel's reports about a run, apart from its output streams: values, figures and the
// error. Their sizes are bounded.

struct python_told {
    struct excerpt result;    // the last expression's value
    struct excerpt displayed; // other values that were displayed, a line or more each
    json_t *figures;          // owned: array of {path?, mime_type, shown}
    json_t *error;            // owned: {name, value, traceback}, or NULL
    bool has_result;
    int images; // shown so far, and the characters of their base64
    size_t image_chars;
};

void python_told_init(struct python_told *t, size_t limit); // bytes of result and displayed, each
void python_told_fini(struct python_told *t);

// Take a line of type "result". Its text is kept. Its image becomes a content block of the call if
// there is room for it, and a link if it is in a file.
void python_told_result(struct python_told *t, struct tool_call *c, const json_t *line);
// Take a line of type "error".
void python_told_error(struct python_told *t, const json_t *line);
// Add what was reported to a structured result; absent parts get no member.
void python_told_add(const struct python_told *t, json_t *structured);
