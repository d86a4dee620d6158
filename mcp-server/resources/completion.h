// SPDX-License-Identifier: Apache-2.0
// A completion/complete request: the possible values of an argument of a prompt or resource
// template.
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct exchange;

#define COMPLETION_VALUES_MAX 100 // in one answer (MCP, server/utilities/completion)

struct completion {
    struct exchange *exchange; // gives context and caller, by its session
    const char *ref;           // the prompt's name, or the template; borrowed, as the rest
    const char *argument;      // which of its arguments
    const char *value;         // the part that was typed
    const json_t *others;      // the other arguments, as far as known: an object, or NULL
    // Set by a source that answers later: stop. The source must still call completion_give, later
    // and never inside this call.
    void (*on_cancel)(struct completion *c);
    void *state; // the source's
};

// End the exchange with `values`, strings in the order of display, any number of them; taken.
// `is_part`: there are more, which were not examined. `c` is freed.
void completion_give(struct completion *c, json_t *values, bool is_part);
void completion_none(struct completion *c);
