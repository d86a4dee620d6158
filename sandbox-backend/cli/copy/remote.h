// SPDX-License-Identifier: Apache-2.0
// A sandbox as one side of a copy: requests that block until they are answered. SIGINT, SIGTERM and
// SIGHUP end the request in progress with ERR_CANCELED, and each later one, too.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/cli/connection.h"

#define REMOTE_SIGNALS 3

struct remote {
    struct connection *c; // borrowed, as id and user
    const char *id, *user;
    // Called a few times a second during each request; may be NULL.
    void (*tick)(void *ctx);
    void *ctx;

    // Private.
    struct client_op *op; // in progress
    int caught;           // the signal; 0: none
    bool cleans;          // signals do not end requests
    char *dir;            // owned; the directory of remote_dir, or NULL
    uv_signal_t signals[REMOTE_SIGNALS];
    uv_timer_t timer;
    int handles_open;
};

void remote_open(struct remote *r, struct connection *c, const char *id, const char *user);
// Remove the directory of remote_dir, also after a signal.
void remote_clean(struct remote *r);
// Forget the directory: the sandbox cannot be asked.
void remote_forget(struct remote *r);
// The same as remote_clean, and give the signals back.
void remote_close(struct remote *r);

// Run a program of the sandbox's shell with arguments ($1 and so on; NULL-terminated, or NULL), and
// append its output to `out` (may be NULL), at most `max` bytes. ERR_NOT_FOUND: the sandbox has no
// shell. Another error has the first line of what the program wrote to stderr.
int remote_script(struct remote *r, const char *script, const char *const *args, struct buf *out,
                  size_t max, struct err *e);

// Upload a regular file from its present offset on. The descriptor stays open.
int remote_upload(struct remote *r, int fd, const char *path, struct err *e);
int remote_upload_bytes(struct remote *r, const struct buf *data, const char *path, struct err *e);
// Download a file to a descriptor, which stays open.
int remote_download(struct remote *r, const char *path, int fd, int64_t max, struct err *e);

// The file or directory to which a path of the sandbox leads, after links. A sandbox that does not
// exist looks like one without the path.
struct remote_stat {
    char type;             // 'f', 'd', 'o' for anything else; 0: there is nothing
    char *path;            // owned; absolute
    int64_t size, seconds; // the time of the last change
    unsigned mode;
};
int remote_stat(struct remote *r, const char *path, struct remote_stat *out, struct err *e);

// Return the absolute path of a directory for temporary files of this copy, which remote_close
// removes. Borrowed; NULL with `e`.
const char *remote_dir(struct remote *r, struct err *e);
