// SPDX-License-Identifier: Apache-2.0
// What a client that gave a progressToken hears while its request is being answered (MCP,
// basic/utilities/progress): what a command prints, as it comes, and every two seconds how long it
// takes when nothing is printed.
#pragma once
#include <stddef.h>

struct exchange;
struct progress;

// Texts of their own, of which each may end in the middle of a character.
enum progress_stream { PROGRESS_STDOUT, PROGRESS_STDERR, PROGRESS_STREAMS };

// For an exchange that has a progress_token. `tell` gives the text for when nothing is printed, a
// new string. Ends before the exchange does.
struct progress *progress_start(struct exchange *x, char *(*tell)(int seconds, void *ctx),
                                void *ctx);
// The first bytes are sent at once, and what follows them together with what comes soon after. Of
// too much at once the middle is left out. A peer that does not read gets it when it does.
void progress_output(struct progress *p, enum progress_stream stream, const char *data, size_t len);
// Sends what is left, unless the exchange was cancelled. Frees itself.
void progress_stop(struct progress *p);
