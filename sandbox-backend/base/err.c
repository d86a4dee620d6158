// SPDX-License-Identifier: Apache-2.0
// The only error type: set, wrap, and the tables between codes and protocols.
#include "sandbox-backend/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define SHOWN_OF_LONG 60 // bytes shown of a name that is too long

#undef err_set
#undef err_sys
#undef err_wrap

static const struct {
    enum err_code code;
    int http;
    const char *connect;
} TABLE[] = {
#define X(name, http, connect) {ERR_##name, http, connect},
    ERR_MAP(X)
#undef X
};
#define TABLE_LEN (sizeof TABLE / sizeof TABLE[0])

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
    if (!e || err_is(e))
        return -1;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    e->code = code;
    e->sys = 0;
    return -1;
}

// The whole name would fill the message.
static void say_too_long(struct err *e)
{
    snprintf(e->msg + SHOWN_OF_LONG, sizeof e->msg - SHOWN_OF_LONG,
             "...: a name in a path may have 255 bytes, and the path 4095");
    e->code = ERR_INVALID;
    e->sys = ENAMETOOLONG;
}

int err_sys(struct err *e, int sys, const char *fmt, ...)
{
    if (!e || err_is(e))
        return -1;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    if (sys == ENAMETOOLONG && n > SHOWN_OF_LONG) {
        say_too_long(e);
        return -1;
    }
    size_t used = n < 0 ? 0 : (size_t)n < sizeof e->msg ? (size_t)n : sizeof e->msg - 1;
    snprintf(e->msg + used, sizeof e->msg - used, ": %s", strerror(sys));
    e->code = err_from_errno(sys);
    e->sys = sys;
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    if (!e || !err_is(e))
        return -1;
    char context[ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(context, sizeof context, fmt, ap);
    va_end(ap);
    char whole[2 * ERR_MSG_BYTES + 4];
    snprintf(whole, sizeof whole, "%s: %s", context, e->msg);
    whole[sizeof e->msg - 1] = '\0';
    memcpy(e->msg, whole, sizeof e->msg);
    return -1;
}

int err_http_status(enum err_code code)
{
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (TABLE[i].code == code)
            return TABLE[i].http;
    return 500;
}

const char *err_connect_name(enum err_code code)
{
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (TABLE[i].code == code)
            return TABLE[i].connect;
    return "unknown";
}

enum err_code err_from_connect_name(const char *name)
{
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (strcmp(TABLE[i].connect, name) == 0)
            return TABLE[i].code;
    return ERR_UNKNOWN;
}

enum err_code err_from_http_status(int status)
{
    for (size_t i = 0; i < TABLE_LEN; i++)
        if (TABLE[i].http == status)
            return TABLE[i].code;
    return status >= 400 && status < 500 ? ERR_INVALID : ERR_UNKNOWN;
}

enum err_code err_from_errno(int sys)
{
    switch (sys) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
        return ERR_LIMIT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENETUNREACH:
    case EHOSTUNREACH:
        return ERR_UNAVAILABLE;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ECANCELED:
        return ERR_CANCELED;
    case EINVAL:
    case ENAMETOOLONG:
    case EISDIR:
    case ELOOP:
    case ENOTEMPTY:
        return ERR_INVALID;
    default:
        return ERR_INTERNAL;
    }
}
