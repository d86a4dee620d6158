// SPDX-License-Identifier: Apache-2.0
// Links with which the browser itself downloads a file. The browser then streams the file to the
// disk, but cannot send the page's key. So a link has a secret of its own, works once, and only for
// a minute.
#pragma once
#include <stdint.h>

#include "sandbox-backend/web/backend.h"

#define DOWNLOADS_MAX  64 // links that were not used yet; the oldest makes room
#define DOWNLOADS_PATH "/download/"

struct download {
    char *secret; // owned; NULL: the slot is free
    char *target; // owned; of the page
    char *token;  // owned; the sandbox's access token, or NULL
    char *file;   // owned; percent-encoded name
    int64_t until_ms;
};

struct downloads {
    struct download links[DOWNLOADS_MAX];
    unsigned next;
};

// Make a link from {"target", "token", "name"}. New string; NULL with `e`.
char *downloads_add(struct downloads *d, const char *body, size_t len, struct err *e);
// Take the link out. False: there is none. The caller frees it with download_fini.
bool downloads_take(struct downloads *d, const char *secret, struct download *out);
void download_fini(struct download *d);
void downloads_fini(struct downloads *d);
