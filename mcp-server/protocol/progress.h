// SPDX-License-Identifier: Apache-2.0
// Progress of a request with a progressToken (MCP, basic/utilities/progress): the output of a
// command as it comes, or every two seconds the elapsed time while there is no output.
#pragma once
#include <stddef.h>

struct exchange;
struct progress;

// Separate texts; each may end in the middle of a character.
enum progress_stream { PROGRESS_STDOUT, PROGRESS_STDERR, PROGRESS_STREAMS };

// Start progress of an exchange that has a progress_token. `tell` returns the text for a time
// without output, a new string. Stop it before the exchange ends.
struct progress *progress_start(struct exchange *x, char *(*tell)(int seconds, void *ctx),
                                void *ctx);
// Add output. The first bytes are sent at once, later ones at most ten times a second. When too
// much arrives between two messages the middle is left out. A peer that does not read gets the
// output later.
void progress_output(struct progress *p, enum progress_stream stream, const char *data, size_t len);
// Send the rest, unless the exchange was cancelled, and free the progress.
void progress_stop(struct progress *p);
