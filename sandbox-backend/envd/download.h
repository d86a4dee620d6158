// SPDX-License-Identifier: Apache-2.0
// An open file as the body of an answer: as fast as the client takes it, and no faster.
#pragma once
#include <stdint.h>

#include "sandbox-backend/envd/envd.h"

struct download_spec {
    int status;       // 200 or 206
    int fd;           // taken
    int64_t from;     // the file's first byte that is sent
    int64_t length;   // -1: until the file ends, which is not known before
    const char *type; // borrowed for the call
    bool gzip;        // compressed; the length is not declared then
};

// The answer's other headers have been set. A file that ends before its length breaks the answer
// off, so that nobody takes it for whole.
void download_start(struct envd *envd, struct http_request *req, const struct download_spec *spec);
