// SPDX-License-Identifier: Apache-2.0
// The file of bearer tokens (schemas/tokens.schema.json): each by the SHA-256 of its text, never
// the text, with a name and limits.
//
// Whoever can write the file can let himself in, so one that others than its owner and root can
// write is refused. Who can read it learns names and hashes; of the tokens that token_file_add
// makes (256 random bits) a hash betrays nothing, so that is allowed.
#pragma once
#include <stdint.h>

#include "mcp-server/auth/sha256.h"
#include "sandbox-backend/base/err.h"

#define TOKENS_MAX                 1000
#define TOKEN_NAME_MAX             64
#define TOKEN_MAX_SANDBOXES        1000000
#define TOKEN_MAX_CALLS_PER_MINUTE 10000000

struct token {
    char name[TOKEN_NAME_MAX + 1]; // letters, digits, . _ @ -
    struct sha256 digest;
    int64_t max_sandboxes;    // -1: not said
    int64_t calls_per_minute; // -1: not said
    int64_t expires_ns;       // wall clock; INT64_MAX: never
};

struct token_list {
    struct token *items; // owned
    int count;
};
void token_list_fini(struct token_list *l);

// ERR_INVALID names the line and what is wrong there; ERR_DENIED: others may write it.
int token_file_read(const char *path, struct token_list *out, struct err *e);
int token_list_parse(const char *text, size_t len, struct token_list *out, struct err *e);

// Makes a token and adds it to the file, which is made (0600) when there is none and replaced as a
// whole otherwise, keeping its owner and mode. The token's text, which is nowhere else (free it),
// or NULL: ERR_EXISTS when the name is taken.
char *token_file_add(const char *path, const char *name, struct err *e);
