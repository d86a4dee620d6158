// SPDX-License-Identifier: Apache-2.0
// A script in a sandbox that writes given bytes into a file. Few bytes are passed as an argument,
// in one round trip; more bytes go through a temporary file.
#pragma once
#include "mcp-server/tools/run/guest_script.h"

// The head of such a script, after GUEST_SCRIPT_PATH: `put` writes the bytes to its stdout.
#define GUEST_PUT_HEAD                                                                  \
    GUEST_SCRIPT_PATH                                                                   \
    "how=$2 value=$3\n"                                                                 \
    "put() { case $how in arg) printf %s \"$value\";; *) cat -- \"$value\";; esac; }\n" \
    "case $how in file) trap 'rm -f -- \"$value\"' EXIT;; esac\n"

struct guest_put {
    const char *script; // begins with GUEST_PUT_HEAD
    const char *path;
    const char *more; // $4
    const char *user; // NULL: the sandbox's default
    const char *data; // copied
    size_t len;
};
// Run the script. Call tool_call_client first. `cb` comes from the loop, once.
void guest_put_run(struct tool_call *c, const struct guest_put *put, guest_script_cb cb, void *ctx);
