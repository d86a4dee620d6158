// SPDX-License-Identifier: Apache-2.0
// The two ways to run a piece of Python for a tool: in the sandbox's kernel, where what it made
// lasts, and in a fresh interpreter, for a sandbox that has no kernel.
#pragma once
#include "mcp-server/tools/run.h"

#define PYTHON_FIGURES_DIR "~/figures" // "~" is the home of who runs the kernel

// The status of a run that was left before the kernel began it.
#define PYTHON_NOT_RUN "not run, for the kernel had not begun it"

// Both end the call. Its arguments are those of run_python_code.
void python_fresh_start(struct tool_call *c);
// `on_no_kernel` is called instead when nothing in the sandbox listens at the kernel's port; the
// call is as it was then, and nothing has run.
void python_kernel_start(struct tool_call *c, void (*on_no_kernel)(struct tool_call *c));

// The names of contexts that `context` may have: those that the kernel issues, and others like it.
bool python_context_is_valid(const char *name);
