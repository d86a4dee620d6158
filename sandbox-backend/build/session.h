// SPDX-License-Identifier: Apache-2.0
// The daemon and the sandboxes of a build, by requests that block until they are answered. SIGINT
// ends each of them with ERR_CANCELED (tool_watch_signals).
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

struct client;

struct session {
    uv_loop_t loop;
    uv_timer_t timer;
    struct client *client;
    struct client_op *op; // borrowed; the request in progress
    void (*tick)(void *ctx);
    void *ctx;
    bool closed;
    bool canceled; // the request in progress has been canceled
    bool deaf;     // do not react to signals: the build cleans up
};

// Connect to the local daemon of `home`, which is started with the first request. `tick` is called
// a few times a second during each request.
int session_open(struct session *s, const char *home, void (*tick)(void *ctx), void *ctx,
                 struct err *e);
void session_close(struct session *s);

struct session_sandbox {
    const char *template; // a template, or "layer:<key>"
    const char *name;     // of the template that is built
    const json_t *policy; // of the network
    int64_t timeout_s;
    int64_t cpus, memory_mb; // 0: as the template
};
// Create a sandbox. New string, its id; or NULL.
char *session_create(struct session *s, const struct session_sandbox *want, struct err *e);
int session_kill(struct session *s, const char *id, struct err *e);
// Kill the sandboxes that earlier builds of `name` left.
int session_sweep(struct session *s, const char *name, struct err *e);
int session_set_timeout(struct session *s, const char *id, int64_t seconds, struct err *e);

// Return whether the layer exists. -1 with `e`: the daemon cannot tell.
int session_has_layer(struct session *s, const char *key, struct err *e);
// Save the sandbox as a layer. New string, the id of its snapshot; or NULL.
char *session_save_layer(struct session *s, const char *id, const char *key, struct err *e);

struct session_command {
    const char *const *argv; // NULL-terminated
    const json_t *env;       // object of strings, or NULL
    const char *user;
    const char *directory; // NULL: the user's home
    int64_t timeout_ms;
    // Output as it comes; may be NULL.
    void (*on_output)(bool is_stderr, const char *data, size_t len, void *ctx);
    void *ctx;
};
// Run a command to its end. *status is its exit status; 128 + the signal for a killed one. -1 with
// ERR_TIMEOUT: it was killed after timeout_ms.
int session_run(struct session *s, const char *id, const struct session_command *command,
                int *status, struct err *e);
// Run a program of the shell as root, and append its output to `out`. -1: it failed, and the
// message has the last line of its output.
int session_script(struct session *s, const char *id, const char *script, int64_t timeout_ms,
                   struct buf *out, struct err *e);
int session_upload(struct session *s, const char *id, int fd /* taken */, const char *path,
                   struct err *e);
int session_download(struct session *s, const char *id, const char *path, int fd /* taken */,
                     int64_t max, struct err *e);
