// SPDX-License-Identifier: Apache-2.0
// One completion/complete: what an argument of a prompt or of a resource template may be.
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct exchange;

#define COMPLETION_VALUES_MAX 100 // in one answer (MCP, server/utilities/completion)

struct completion {
    struct exchange *exchange; // for its session's toolbox and caller
    const char *ref;           // the prompt's name, or the template; borrowed, as the rest
    const char *argument;      // which of its arguments
    const char *value;         // what was typed of it
    const json_t *others;      // arguments that are known already: an object, or NULL
    // Set by who answers later: stop. completion_give must follow all the same, never inside this
    // call.
    void (*on_cancel)(struct completion *c);
    void *state; // theirs
};

// `values`: strings in the order in which they are shown, any number of them; taken. `is_part`:
// there are more that were not looked at. Ends the exchange; `c` is gone.
void completion_give(struct completion *c, json_t *values, bool is_part);
void completion_none(struct completion *c);
