// SPDX-License-Identifier: Apache-2.0
// The tokens of a file, as the file has them: a changed one is read again when somebody next asks,
// at most once a second. One that is broken, or cannot be read, changes nothing, and is
// complained of; one that cannot be read is tried again.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/file_stamp.h"
#include "sandbox-backend/keys/token_file.h"

struct token_ring {
    char *path; // owned
    bool may_be_missing;
    struct file_stamp stamp; // of what was read last, good or broken
    int64_t looked_ms;
    struct token_list list;
};

// `path` is copied. With may_be_missing a file that is not there is one without tokens. -1 with
// what is wrong with the file; the ring is empty then, and still to be ended.
int token_ring_init(struct token_ring *r, const char *path, bool may_be_missing, struct err *e);
void token_ring_fini(struct token_ring *r);

// Looks at the file when it is time to. True: r->list is new, and *old, the caller's now, the one
// before.
bool token_ring_refresh(struct token_ring *r, int64_t now_ms, struct token_list *old);

// The index of the token with this hash in r->list, expired or not; -1 when there is none. Takes
// the same time whichever it is.
int token_ring_find(const struct token_ring *r, const struct sha256 *digest);
