// SPDX-License-Identifier: Apache-2.0
// Watch a directory, or a whole tree, by inotify(7).
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define WATCHER_DIRS_MAX 16384 // of one watcher; the guest kernel limits the sum of all watchers

struct watcher;

struct watcher_events {
    void (*on_armed)(void *ctx); // called once: from now on every change is reported
    // `type`: EVENT_TYPE_CREATE ...; `name`: relative to the watched directory, "." for itself;
    // `path`: absolute. Bytes, borrowed for the call.
    void (*on_event)(const char *type, const char *name, const char *path, void *ctx);
    // Last call: the watcher has failed. ERR_LIMIT: events were lost, or there are too many
    // directories.
    void (*on_failed)(const struct err *e, void *ctx);
};

// Watch `path` (absolute). Events come from the loop or inside watcher_drain. NULL with
// ERR_NOT_FOUND, ERR_INVALID if it is not a directory, or ERR_LIMIT of the guest kernel.
struct watcher *watcher_new(uv_loop_t *loop, const char *path, bool recursive,
                            const struct watcher_events *events, void *ctx, struct err *e);
// While a watcher is blocked it reports nothing and the guest kernel queues events, up to a limit.
// Past the limit the watcher fails.
void watcher_set_blocked(struct watcher *w, bool blocked);
// Report the events that the guest kernel has queued so far, at once: up to a limit of slices, past
// which the loop reports the rest. For a caller that answers with the events.
void watcher_drain(struct watcher *w);
void watcher_close(struct watcher *w); // no event follows
