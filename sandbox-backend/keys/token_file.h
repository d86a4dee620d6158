// SPDX-License-Identifier: Apache-2.0
// A file of secrets that let somebody in (schemas/tokens.schema.json), the bearer tokens of
// cubby-mcp or the API keys of cubbyd: each by the SHA-256 of its text, never the text, with a name
// and limits.
//
// Whoever can write the file can let himself in, so one that others than its owner and root can
// write is refused. Who can read it learns names and hashes; of the tokens that token_file_add
// makes (160 random bits or more) a hash betrays nothing, so that is allowed.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

#define TOKENS_MAX                 1000
#define TOKEN_NAME_MAX             64
#define TOKEN_MAX_SANDBOXES        1000000
#define TOKEN_MAX_CALLS_PER_MINUTE 10000000
#define TOKEN_MAX_MB               ((int64_t)1 << 40)

struct token {
    char name[TOKEN_NAME_MAX + 1]; // letters, digits, . _ @ -
    struct sha256 digest;
    int64_t max_sandboxes;                                       // -1: not said
    int64_t calls_per_minute;                                    // -1: not said
    int64_t max_memory_mb, max_cpus, max_snapshots, max_disk_mb; // the same
    int64_t max_ports;                                           // the same
    int64_t expires_ns;                                          // wall clock; INT64_MAX: never
};

struct token_list {
    struct token *items; // owned
    int count;
};
void token_list_fini(struct token_list *l);

// ERR_INVALID names the line and what is wrong there; ERR_DENIED: others may write it.
int token_file_read(const char *path, struct token_list *out, struct err *e);
int token_list_parse(const char *text, size_t len, struct token_list *out, struct err *e);

struct token_kind {
    const char *prefix;
    size_t random_bytes; // written as hexadecimal digits behind the prefix
};
extern const struct token_kind TOKEN_BEARER;  // cubby-mcp's: cubby_ and 64 digits
extern const struct token_kind TOKEN_API_KEY; // cubbyd's, as E2B's SDKs want them: e2b_ and 40

// A limit that a token is made with.
struct token_limit {
    const char *key; // a member of the file: "max_sandboxes"
    int64_t value;   // below 0: not said
};

// Makes a token and adds it to the file, which is made (0600) when there is none and replaced as a
// whole otherwise, keeping its owner and mode. The token's text, which is nowhere else (free it),
// or NULL: ERR_EXISTS when the name is taken.
char *token_file_add(const char *path, const char *name, const struct token_kind *kind,
                     struct err *e);
// The same, with limits.
char *token_file_add_limited(const char *path, const char *name, const struct token_kind *kind,
                             const struct token_limit *limits, size_t count, struct err *e);
// Takes the token of this name out of the file. ERR_NOT_FOUND when there is none.
int token_file_remove(const char *path, const char *name, struct err *e);
