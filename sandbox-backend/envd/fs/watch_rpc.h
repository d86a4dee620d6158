// SPDX-License-Identifier: Apache-2.0
// The methods of filesystem.Filesystem that watch: a stream (WatchDir), and polling by
// CreateWatcher, GetWatcherEvents and RemoveWatcher.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/envd/fs/entry.h"
#include "sandbox-backend/envd/fs/watcher.h"
#include "sandbox-backend/envd/rpc/rpc.h"

#define WATCHES_MAX 64 // of both kinds; the guest kernel gives a user 128 inotify instances

extern const struct rpc_method WATCH_METHODS[];
extern const size_t WATCH_METHOD_COUNT;

// The target of a watch request.
struct watch_target {
    char *path; // owned; absolute
    bool recursive;
    enum entry_form form; // of the entries in events
};

// Begin a watch, which counts towards WATCHES_MAX until watch_end. NULL with an error about the
// request, or ERR_LIMIT.
struct watcher *watch_begin(const struct rpc *call, const struct watch_target *target,
                            const struct watcher_events *events, void *ctx, struct err *e);
void watch_end(struct envd *envd, struct watcher *w);
// Append a FilesystemEvent.
void watch_put_event(struct buf *out, const struct users *users, enum entry_form form,
                     const char *type, const char *name, const char *path);

// The methods. `target` is borrowed for the call.
void watch_stream(struct rpc *call, const struct watch_target *target);
void watch_poll_create(struct rpc *call, const struct watch_target *target);
void watch_poll_events(struct rpc *call, const char *id);
void watch_poll_remove(struct rpc *call, const char *id);

// End a watch that no client has polled for long. False: no such watch.
bool watch_poll_evict(struct envd *envd);
void watch_poll_close(struct envd *envd); // ends all
