// SPDX-License-Identifier: Apache-2.0
// One output stream of a command: its head and tail are kept for showing, its bytes counted, and
// all of it saved in a file once it is longer than that.
#pragma once
#include "mcp-server/tools/excerpt.h"

#define OUTPUT_SAVED_MAX ((int64_t)256 << 20) // bytes of a stream that are saved; more are counted

struct output {
    struct excerpt shown;
    int64_t saved; // bytes in the file
    int fd;        // unlinked temporary file, owned; -1 while all fits in what is shown
    bool unsaved;  // the file could not be made or written
};

void output_init(struct output *o, size_t limit); // bytes shown at most, head and tail together
void output_fini(struct output *o);
void output_add(struct output *o, const char *data, size_t len);
int64_t output_total(const struct output *o); // bytes seen
bool output_is_cut(const struct output *o);   // the middle is left out of what is shown
int output_take_fd(struct output *o);         // the file, at its beginning, or -1; the caller's now

// What is shown, as a new JSON string: invalid UTF-8 is replaced. `where`: what to say of the whole
// when the middle is missing, such as "all of it is in /tmp/x".
json_t *output_text(const struct output *o, const char *where);
