// SPDX-License-Identifier: Apache-2.0
// Files of tokens (schemas/tokens.schema.json): the bearer tokens of cubby-mcp, or the API keys of
// cubbyd. A file has the SHA-256 of each token, never its text, with a name and limits.
//
// A user that can write the file can add a token. So a file is refused when it belongs to a user
// other than this one and root, or when its group or others can write it. Others may read it: they
// learn names and hashes, and tokens of 160 random bits or more cannot be found from their hashes.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/keys/sha256.h"

#define TOKENS_MAX                 1000
#define TOKEN_NAME_MAX             64
#define TOKEN_MAX_SANDBOXES        1000000
#define TOKEN_MAX_CALLS_PER_MINUTE 10000000
#define TOKEN_MAX_TIMEOUT_S        2592000
#define TOKEN_MAX_MB               ((int64_t)1 << 40)
#define TOKEN_TIERS_MAX            8
#define TOKEN_TIER_CHARS           16

struct token {
    char name[TOKEN_NAME_MAX + 1]; // letters, digits, . _ @ -
    struct sha256 digest;
    int64_t max_sandboxes;                                       // -1: no limit given
    int64_t calls_per_minute;                                    // the same
    int64_t max_memory_mb, max_cpus, max_snapshots, max_disk_mb; // the same
    int64_t max_ports, max_builds, max_timeout_s;                // the same
    int64_t expires_ns;                                          // wall clock; INT64_MAX: never
    int64_t created_ns;                                          // the same; 0: not known
    bool admin; // of an API key: it may make and delete keys
    // The tiers that it may ask for, comma separated; "": not given.
    char tiers[TOKEN_TIERS_MAX * (TOKEN_TIER_CHARS + 1)];
    const char *structured, *images; // static: a value of the option; NULL: not given
};

// The last time at which a token of this name was removed with all that belongs to the name. A
// daemon that reads it removes what it has of the name (daemon/api/key_belongings.h).
struct token_removal {
    char name[TOKEN_NAME_MAX + 1];
    int64_t at_ns; // wall clock
};

struct token_list {
    struct token *items; // owned
    int count;
    struct token_removal *removed; // owned; "removed" of the file
    int removed_count;
};
void token_list_fini(struct token_list *l);
// Return the removal of this name, borrowed; NULL: the file has none.
const struct token_removal *token_list_removal(const struct token_list *l, const char *name);

// Read or parse a token file. ERR_INVALID names the line and the mistake; ERR_DENIED: other users
// can write the file. After success, call token_list_fini.
int token_file_read(const char *path, struct token_list *out, struct err *e);
int token_list_parse(const char *text, size_t len, struct token_list *out, struct err *e);

// Return the tiers of a token as the file has them: an array of names. New reference.
json_t *token_tiers_to_json(const char *tiers);

struct token_kind {
    const char *prefix;
    size_t random_bytes; // written as hexadecimal digits after the prefix
};
extern const struct token_kind TOKEN_BEARER; // of cubby-mcp: cubby_ and 64 digits
extern const struct token_kind
    TOKEN_API_KEY; // of cubbyd, in the form that E2B's SDKs require: e2b_ and 40

// A limit of a new token.
struct token_limit {
    const char *key; // a member of the file: "max_sandboxes"
    int64_t value;   // below 0: no limit
};

// Make a token and add it to the file. A missing file is created with mode 0600. An existing file
// is replaced as a whole, and keeps its owner and mode. Return the token's text, which is stored
// nowhere; the caller frees it. NULL on failure. ERR_EXISTS: the name is taken.
char *token_file_add(const char *path, const char *name, const struct token_kind *kind,
                     struct err *e);
// The settings of a new token, beside its name.
struct token_wish {
    const struct token_limit *limits;
    size_t count;
    const char *tiers; // comma separated; NULL: not given
    bool admin;
};
char *token_file_add_limited(const char *path, const char *name, const struct token_kind *kind,
                             const struct token_wish *wish, struct err *e);
// Remove the token with this name from the file. ERR_NOT_FOUND: the file has no such token. Unless
// `keep`, write the removal into "removed", at a later time than an earlier removal of the name. At
// TOKENS_MAX names the oldest removal is dropped.
int token_file_remove(const char *path, const char *name, bool keep, struct err *e);
