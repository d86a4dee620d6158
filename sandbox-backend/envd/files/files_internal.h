// SPDX-License-Identifier: Apache-2.0
// Functions that the source files of envd's /files endpoint share.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/envd/files/files.h"

// ---- files.c
// Find the user that a request names: by `name` (may be NULL or empty), else by `basic`, else the
// default user. -1: the request has been answered with 401.
int files__user(const struct envd *envd, struct http_request *req, const char *name,
                const char *basic, struct user *out);

// ---- files_get.c, files_post.c: access has been checked.
void files__get(struct envd *envd, struct http_request *req, const struct user *user);
void files__post(struct envd *envd, struct http_request *req, const struct user *user);

// ---- download.c
struct download_spec {
    int status;       // 200 or 206
    int fd;           // the download owns it from then on
    int64_t from;     // offset of the first byte to send
    int64_t length;   // -1: to the end of the file, which is not known yet
    const char *type; // borrowed for the call
    bool gzip;        // send it compressed, without a declared length
};

// Send an open file as the body of an answer, as fast as the client reads it. The caller has set
// the other headers. A file that ends before its length aborts the answer, so that the client does
// not take it for complete.
void download_start(struct envd *envd, struct http_request *req, const struct download_spec *spec);

// ---- blocks for direct I/O (O_DIRECT), by which large files bypass the page cache (download.c)
//
// In an emulated guest, a page of the cache costs several times as much as moving its bytes: to
// write 100 MB took 1.5 s of processor time through the cache and 0.6 s past it. Small files use
// the cache, since they are likely to be read soon. Direct I/O needs memory, offset and length in
// whole blocks of the disk. A read sees everything that was written before, whether directly or
// through the cache, because the guest kernel first writes back and drops the cached pages of the
// range. Direct I/O makes nothing durable: that still needs an fsync, which no upload does.

// A power of two. Longer blocks are cheaper: 64 KB blocks take twice the time.
#define DIRECT_BLOCK_BYTES (1024 * 1024)
#define DIRECT_BLOCK_ALIGN 4096 // a multiple of the block size of any disk
#define DIRECT_BLOCKS      4    // at once; further files use the page cache

char *direct_block_take(void);       // DIRECT_BLOCK_BYTES of memory; NULL: no block is free
void direct_block_give(char *block); // may be NULL

// Turn direct I/O of `fd` on or off. False: its file system does not support it (tmpfs).
bool direct_block_switch(int fd, bool is_direct);
