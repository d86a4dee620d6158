// SPDX-License-Identifier: Apache-2.0
// Watches a directory, and all below it if so asked, by inotify(7).
#pragma once
#include <stdbool.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"

#define WATCHER_DIRS_MAX 16384 // of one watcher; the kernel has a limit of its own for all

struct watcher;

struct watcher_events {
    void (*on_armed)(void *ctx); // once: every change from now on is told
    // `type`: EVENT_TYPE_CREATE ...; `name`: relative to the watched directory, "." for itself;
    // `path`: absolute. Bytes, borrowed for the call.
    void (*on_event)(const char *type, const char *name, const char *path, void *ctx);
    // Last: it cannot go on. ERR_LIMIT: events were lost, or there are too many directories.
    void (*on_failed)(const struct err *e, void *ctx);
};

// `path` is absolute. All of `events` come from the loop. NULL: ERR_NOT_FOUND, ERR_INVALID for what
// is no directory, ERR_LIMIT when the kernel watches too much.
struct watcher *watcher_new(uv_loop_t *loop, const char *path, bool recursive,
                            const struct watcher_events *events, void *ctx, struct err *e);
// While it is blocked nothing is told, and the kernel keeps what happens, up to a limit; past that
// it fails.
void watcher_set_blocked(struct watcher *w, bool blocked);
void watcher_close(struct watcher *w); // nothing is told any more
