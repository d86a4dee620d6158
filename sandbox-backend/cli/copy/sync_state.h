// SPDX-License-Identifier: Apache-2.0
// The state in which the last synchronisation left both sides, in a file of the state directory. An
// entry that differs from it has been changed since.
#pragma once
#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/copy/listing.h"

struct sync_state {
    char *file;                         // owned; its path
    char *key;                          // owned; which directories it is for
    struct listing host, guest;         // of the last time; each sorted
    struct listing new_host, new_guest; // of this time, which sync_state_save writes
};

// Read the state for a directory of the host and one of a sandbox; it is empty at first. Both paths
// are absolute.
int sync_state_open(struct sync_state *s, const char *host, const char *id, const char *guest,
                    struct err *e);
int sync_state_save(struct sync_state *s, struct err *e);
void sync_state_fini(struct sync_state *s);
// The file's text: of the key and this time's entries; and back, as those of the last time. Parsing
// changes the text.
void sync_state_print(const struct sync_state *s, struct buf *out);
int sync_state_parse(struct sync_state *s, struct buf *text, struct err *e);

// Note an entry that is now on both sides, with the same path. Both are copied.
void sync_state_note(struct sync_state *s, const struct entry *host, const struct entry *guest);
// Return whether an entry differs from the noted one, as far as a synchronisation copies it.
// Either may be NULL: there is none.
bool sync_state_differs(const struct entry *now, const struct entry *noted);
