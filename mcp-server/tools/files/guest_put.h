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

// The function `replace` of such a script replaces the content of the regular file $p by the bytes,
// all or nothing; no component of $p after the last slash is a symbolic link. It makes a new file
// with the old mode and attributes, which takes the old one's place at once. Where that is not
// possible, or would break a link or change the owner, it overwrites the old file: first it appends
// what lies beyond the old end, and takes that back if the disk is full. Then it overwrites the
// rest, which needs no more room. The script defines `is_current`: false, if it must not replace
// the file any more. Returns 0; 1 or GUEST_PUT_STALE, and the file has its old content; or
// GUEST_PUT_PARTIAL.
#define GUEST_PUT_STALE   30 // is_current was false
#define GUEST_PUT_PARTIAL 24 // the file may have a part of the new content
#define GUEST_PUT_REPLACE                                                                    \
    "replace() {\n"                                                                          \
    "    local t=${p%/*}/.cubby-$$-$RANDOM old new\n"                                        \
    "    : 1<>\"$p\" || return 1\n"                                                          \
    "    if [ -O \"$p\" ] && [ \"$(stat -c %h -- \"$p\")\" = 1 ] &&\n"                       \
    "        (umask 077; set -C; : >\"$t\") 2>/dev/null; then\n"                             \
    "        if cp --attributes-only --preserve=all -- \"$p\" \"$t\" && put >\"$t\"; then\n" \
    "            is_current || { rm -f -- \"$t\"; return 30; }\n"                            \
    "            mv -f -- \"$t\" \"$p\" && return\n"                                         \
    "        fi 2>/dev/null\n"                                                               \
    "        rm -f -- \"$t\"\n"                                                              \
    "    fi\n"                                                                               \
    "    is_current || return 30\n"                                                          \
    "    old=$(stat -c %s -- \"$p\") && new=$(put | wc -c) || return 1\n"                    \
    "    if [ $new -gt $old ] && ! put | tail -c +$((old + 1)) >>\"$p\"; then\n"             \
    "        truncate -s $old -- \"$p\"\n"                                                   \
    "        return 1\n"                                                                     \
    "    fi\n"                                                                               \
    "    put 1<>\"$p\" && truncate -s $new -- \"$p\" || return 24\n"                         \
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
// End the call after such a script, as guest_script_fail. GUEST_PUT_PARTIAL is told.
void guest_put_fail(struct tool_call *c, const struct guest_result *r, const struct err *e);
