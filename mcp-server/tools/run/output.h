// SPDX-License-Identifier: Apache-2.0
// An output stream of a command. Its head and tail are kept for the result and its bytes are
// counted. A longer stream is saved whole in a file.
#pragma once
#include "mcp-server/text/excerpt.h"

#define OUTPUT_SAVED_MAX ((int64_t)256 << 20) // bytes of a stream that are saved; more are counted

struct output {
    struct excerpt shown;
    int64_t saved; // bytes in the file
    int fd;        // unlinked temporary file, owned; -1 while head and tail hold everything
    bool unsaved;  // the file could not be created or written
};

void output_init(struct output *o, size_t limit); // bytes shown at most, head and tail together
void output_fini(struct output *o);
void output_add(struct output *o, const char *data, size_t len);
int64_t output_total(const struct output *o); // bytes seen
bool output_is_cut(const struct output *o);   // the middle is left out of what is shown
int output_take_fd(struct output *o);         // the file, at its beginning, or -1; the caller's now

// Return the head and tail as a new JSON string; invalid UTF-8 is replaced. `where` says where the
// whole is if the middle is missing, such as "all of it is in /tmp/x".
json_t *output_text(const struct output *o, const char *where);
