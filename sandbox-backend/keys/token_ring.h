// SPDX-License-Identifier: Apache-2.0
// The tokens of a file, read again after each change. The file is looked at once a second at most.
// When it is malformed or missing or cannot be read, this is logged and the old tokens stay: it may
// be replaced just now. A file that could not be read is tried again at the next look.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/keys/token_file.h"

struct token_ring {
    char *path; // owned
    bool may_be_missing;
    struct file_stamp stamp; // at the last read, also of a malformed file
    int64_t looked_ms;       // monotonic time of the last look
    struct token_list list;
};

// Read the file. `path` is copied. With may_be_missing, a missing file counts as a file without
// tokens at the start. After a failure the ring is empty; token_ring_fini must be called then too.
int token_ring_init(struct token_ring *r, const char *path, bool may_be_missing, struct err *e);
void token_ring_fini(struct token_ring *r);

// Read the file if it has changed since the last look, a second ago or more. Return whether r->list
// was replaced; *old is then the previous list, which the caller frees.
bool token_ring_refresh(struct token_ring *r, int64_t now_ms, struct token_list *old);

// Return the index in r->list of the token with this hash, expired or not, or -1. The time that it
// takes does not depend on which token matches.
int token_ring_find(const struct token_ring *r, const struct sha256 *digest);
