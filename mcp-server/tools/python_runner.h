// SPDX-License-Identifier: Apache-2.0
// How a piece of Python is run by a fresh interpreter, and what it tells of the end.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

// The program that `python3 -c` is given, with three arguments: the mark, "code" or "file", and
// the code or the path of a file that holds it (and is removed). It runs the code as __main__,
// with top-level await, and at the very end writes to stderr
//   0x1e <mark> {"result": repr of the last expression, "error": {"name","value","traceback"}} \n
// each member only when there is one.
extern const char PYTHON_RUNNER[];

#define PYTHON_MARK_BYTES 32 // hex digits, random for each run

// Takes that record out of stderr as its bytes arrive, however they are split.
struct python_record {
    char mark[1 + PYTHON_MARK_BYTES + 1]; // 0x1e and the mark
    size_t matched;                       // bytes of `mark` seen, and held back
    bool inside;
    struct buf text;
    void (*pass)(const char *data, size_t len, void *ctx);
    void *ctx;
};
// What is not the record goes on to `pass`.
void python_record_init(struct python_record *r,
                        void (*pass)(const char *data, size_t len, void *ctx), void *ctx);
void python_record_fini(struct python_record *r);
void python_record_feed(struct python_record *r, const char *data, size_t len);
// After the last byte: the record as a new object, or NULL when none came whole.
json_t *python_record_end(struct python_record *r);
