// SPDX-License-Identifier: Apache-2.0
// The one error type: a code, an errno and a sentence, in memory the caller owns.
#pragma once
#include <stdarg.h>
#include <stdbool.h>

#define ERR_MSG_BYTES 320

// One row per code: enum suffix, HTTP status, Connect code (https://connectrpc.com/docs/protocol).
#define ERR_MAP(X)                              \
    X(CANCELED, 499, "canceled")                \
    X(UNKNOWN, 500, "unknown")                  \
    X(INVALID, 400, "invalid_argument")         \
    X(TIMEOUT, 504, "deadline_exceeded")        \
    X(NOT_FOUND, 404, "not_found")              \
    X(EXISTS, 409, "already_exists")            \
    X(DENIED, 403, "permission_denied")         \
    X(LIMIT, 429, "resource_exhausted")         \
    X(PRECONDITION, 400, "failed_precondition") \
    X(CONFLICT, 409, "aborted")                 \
    X(RANGE, 400, "out_of_range")               \
    X(UNIMPLEMENTED, 501, "unimplemented")      \
    X(INTERNAL, 500, "internal")                \
    X(UNAVAILABLE, 503, "unavailable")          \
    X(UNAUTHENTICATED, 401, "unauthenticated")  \
    X(NO_SPACE, 507, "resource_exhausted")      \
    X(TOO_LARGE, 413, "resource_exhausted")     \
    X(GONE, 502, "unavailable")                 \
    X(BUSY, 503, "unavailable") // full now; later there may be room

enum err_code {
    ERR_NONE = 0,
#define X(name, http, connect) ERR_##name,
    ERR_MAP(X)
#undef X
};

struct err {
    enum err_code code;
    int sys;                 // errno, 0 when there is none
    int retry_s;             // to ask again is worth it then (Retry-After); 0: not said
    char msg[ERR_MSG_BYTES]; // one sentence for a person, no newline at its end
};

#define ERR_INIT         \
    (struct err)         \
    {                    \
        .code = ERR_NONE \
    }

// Sets `e` unless it already holds an error: the first one wins. Returns -1, so that a function
// can end with `return err_set(...)`. `e` may be NULL.
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// The same for a failed system call: appends ": <strerror(sys)>" and picks the code that fits the
// errno (ENOENT -> NOT_FOUND, ENOSPC -> NO_SPACE ...). `sys` is errno or a positive libuv errno.
int err_sys(struct err *e, int sys, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Puts what was being done in front of the message: "<context>: <message>". Keeps the code.
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__ // it looks at one file at a time, and must know that these return -1
#define err_set(...)                \
    ({                              \
        (void)err_set(__VA_ARGS__); \
        -1;                         \
    })
#define err_sys(...)                \
    ({                              \
        (void)err_sys(__VA_ARGS__); \
        -1;                         \
    })
#define err_wrap(...)                \
    ({                               \
        (void)err_wrap(__VA_ARGS__); \
        -1;                          \
    })
#endif

static inline bool err_is(const struct err *e)
{
    return e->code != ERR_NONE;
}

int err_http_status(enum err_code code);
const char *err_connect_name(enum err_code code);
enum err_code err_from_connect_name(const char *name); // ERR_UNKNOWN for one it does not know
enum err_code err_from_http_status(int status);
enum err_code err_from_errno(int sys);
