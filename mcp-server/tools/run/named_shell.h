// SPDX-License-Identifier: Apache-2.0
// Named shells: a bash in the sandbox that keeps its directory, variables, functions and background
// jobs from one call of run_command to the next, whichever process of this server makes the call.
//
// Theory of operation. A named shell belongs to a user of the sandbox. A model names it in the
// argument `session`. Three kinds of processes serve it, all started through envd: the shell; its
// keeper, which lives as long as the sandbox and starts another shell when one ends; and one client
// for each call. The client makes a directory with two FIFOs, passes the call to the keeper, and
// copies the FIFOs to its stdout and stderr. The keeper runs calls one after another in the order
// in which they came. When a command has ended, the keeper writes a line with the call's random key
// and the exit code at the end of both streams. This server looks for that line: what is before it
// is the command's output, and the call ends when both streams have the line. So no byte is lost,
// and none goes to another call, however slow the processes are.
//
// A background job keeps writing to the FIFOs of the call that started it. What it prints after the
// end of that call is dropped, as without a named shell.
//
// Limits. The call's timeout includes its wait for earlier calls. A call whose time is over while
// it waits is not run. This also holds for the wait for a shell whose profile takes long. A command
// never runs twice: either the keeper or the client claims the call, and this server repeats it
// only if the client has claimed it. If the session is lost, the client knows whether the keeper
// had passed the command to the shell, and the error says so. A command whose time is over, or
// whose client is gone, is interrupted (SIGINT, after 2 s SIGKILL); the shell lives on. Everything
// is a process or a FIFO of the guest, so a pause, a snapshot and a fork keep it. Files are in
// /tmp/.cubby/shells-UID/NAME, or below $CUBBY_COMMANDS.
#pragma once
#include <jansson.h>

#include "mcp-server/tools/run/run.h"

#define SHELL_NONE     43 // exit codes of the scripts: there is no such shell
#define SHELL_BUSY     44 // the time was over before the command began
#define SHELL_LATE     45 // the time was over before the shell began
#define SHELL_NOT_RUN  46 // its keeper or its files were gone before the command began
#define SHELL_NO_FILES 39 // its files could not be made
#define SHELL_TOO_MANY 41
#define SHELLS_MAX     32 // of one user

extern const char SHELL_LOOP[], SHELL_KEEP[], SHELL_CALL[];

// Run the call's `command` in the shell `name` (borrowed), with its cwd and envs, which last.
// Takes `r`, as run_start does: on_done is called once, or the call fails.
void named_shell_run(struct run *r, const char *name);
// Return {"name", "new", "ended", "sessions"} for the result; new reference. Only in on_done.
json_t *named_shell_view(const struct run *r);
