// SPDX-License-Identifier: Apache-2.0
// A script in a sandbox that writes given bytes into a file. A short text is passed as an
// argument, in one round trip; other bytes go through a temporary file.
#pragma once
#include "mcp-server/tools/run/guest_script.h"

// The head of such a script, after GUEST_SCRIPT_PATH: `put` writes the bytes to its stdout.
#define GUEST_PUT_HEAD                                                                  \
    GUEST_SCRIPT_PATH                                                                   \
    "how=$2 value=$3\n"                                                                 \
    "put() { case $how in arg) printf %s \"$value\";; *) cat -- \"$value\";; esac; }\n" \
    "case $how in file) trap 'rm -f -- \"$value\"' EXIT;; esac\n"

// The function `overwrite` of such a script writes the bytes over the content of the regular file
// $p. First it appends what lies beyond the old end, and takes that back if the disk is full. Then
// it overwrites the rest, which needs no more room. Returns 0; 1, and the file has its old content;
// or GUEST_PUT_PARTIAL.
#define GUEST_PUT_PARTIAL 24 // the file may have a part of the new content
#define GUEST_PUT_OVERWRITE                                                      \
    "overwrite() {\n"                                                            \
    "    local old new\n"                                                        \
    "    : 1<>\"$p\" || return 1\n"                                              \
    "    old=$(stat -c %s -- \"$p\") && new=$(put | wc -c) || return 1\n"        \
    "    if [ $new -gt $old ] && ! put | tail -c +$((old + 1)) >>\"$p\"; then\n" \
    "        truncate -s $old -- \"$p\"\n"                                       \
    "        return 1\n"                                                         \
    "    fi\n"                                                                   \
    "    put 1<>\"$p\" && truncate -s $new -- \"$p\" || return 24\n"             \
    "}\n"

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
// End the call after such a script, as guest_script_fail. The error reports
// GUEST_PUT_PARTIAL.
void guest_put_fail(struct tool_call *c, const struct guest_result *r, const struct err *e);
// The `uses` of a tool that changes the file `path`.
char *guest_put_uses(const struct tool_call *c);
