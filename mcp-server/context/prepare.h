// SPDX-License-Identifier: Apache-2.0
// The preparation of this computer, with --prepare: `cubby setup --prepare` makes the template in
// the background, while this process answers its client.
//
// The preparation outlives this process, because many clients end a server soon. The next process
// starts another one, which waits for the first and then finds the template there.
#pragma once
#include <stdbool.h>
#include <sys/queue.h>

struct context;

// A call that waits for the end of the preparation. Embedded.
struct prepare_waiter {
    LIST_ENTRY(prepare_waiter) next;
    void (*on_over)(struct prepare_waiter *w); // from the loop, once
};

// Start the preparation, unless the options or the backend need none, or it runs or is done.
void prepare_start(struct context *cx);
// Return whether nothing needs to be waited for: no preparation was asked for, or it is done.
bool prepare_is_done(const struct context *cx);
// Return whether it runs.
bool prepare_runs(const struct context *cx);
// Wait for its end, while it runs.
void prepare_wait(struct context *cx, struct prepare_waiter *w);
void prepare_forget(struct prepare_waiter *w);
// Return what it does now, for people: the last line that it printed. New string.
char *prepare_text(const struct context *cx);
// Return why it failed, and forget that, so that the next prepare_start tries again. New string;
// NULL: it has not failed, or this was returned already.
char *prepare_take_failure(struct context *cx);
void prepare_close(struct context *cx); // asynchronous; a preparation that runs goes on
