// SPDX-License-Identifier: Apache-2.0
// The only error type: a code, an errno and a sentence, in memory that the caller owns.
#pragma once
#include <stdarg.h>
#include <stdbool.h>

#define ERR_MSG_BYTES 320

// A row for each code: enum suffix, HTTP status, Connect code
// (https://connectrpc.com/docs/protocol).
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
    X(BUSY, 503, "unavailable")                 \
    X(REFUSED, 503, "unavailable")              \
    X(UNTRUSTED, 503, "unavailable")            \
    X(NOT_TLS, 503, "unavailable")
// BUSY: there is no room now, but there may be later. The last three are failed connections.
// REFUSED: nothing listens there. UNTRUSTED: the peer's certificate is not trusted. NOT_TLS: the
// peer does not speak TLS.

enum err_code {
    ERR_NONE = 0,
#define X(name, http, connect) ERR_##name,
    ERR_MAP(X)
#undef X
};

struct err {
    enum err_code code;
    int sys;                 // errno, or 0
    int retry_s;             // when a retry makes sense (Retry-After); 0: unknown
    char msg[ERR_MSG_BYTES]; // one sentence for a person, no newline at its end
};

#define ERR_INIT         \
    (struct err)         \
    {                    \
        .code = ERR_NONE \
    }

// Set `e` unless it holds an error already: the first error wins. Return -1, so that a function can
// end with `return err_set(...)`. `e` may be NULL.
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

// The same for a failed system call: append ": <strerror(sys)>" and choose the code by the errno
// (ENOENT -> NOT_FOUND, ENOSPC -> NO_SPACE ...). `sys` is errno or a positive libuv errno.
int err_sys(struct err *e, int sys, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Put the context before the message: "<context>: <message>". The code does not change.
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__ // it analyses one file at a time, and must know that these return -1
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
enum err_code err_from_connect_name(const char *name); // ERR_UNKNOWN for an unknown name
enum err_code err_from_http_status(int status);
enum err_code err_from_errno(int sys);
