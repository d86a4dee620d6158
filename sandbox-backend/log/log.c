// SPDX-License-Identifier: Apache-2.0
// Logging: one write(2) for each line, so that lines of several processes do not mix.
#include "sandbox-backend/log/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/visible.h"

#define LINE_MAX_BYTES 4096 // of the fields before escaping; the rest is cut off

static const char *const NAMES[] = {"error", "warn", "info", "debug"};
static enum log_level threshold = LOG_INFO;
static int log_fd = STDERR_FILENO;

void log_set_level(enum log_level level)
{
    threshold = level;
}

int log_parse_level(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (strcmp(NAMES[i], name) == 0)
            return (int)i;
    return -1;
}

void log_set_fd(int fd)
{
    log_fd = fd;
}

void log_write(enum log_level level, const char *event, const char *fmt, ...)
{
    if (level > threshold || log_fd < 0)
        return;
    int saved = errno;
    char fields[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(fields, sizeof fields, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof fields ? (size_t)n : sizeof fields - 1;

    char when[CLOCK_RFC3339_BYTES];
    clock_rfc3339(when, clock_wall_ns() / 1000000 * 1000000);
    struct buf line auto_buf = BUF_INIT;
    buf_printf(&line, "%s %s %s%s", when, NAMES[level], event, len ? " " : "");
    visible_add(&line, fields, len);
    buf_adds(&line, (size_t)(n < 0 ? 0 : n) > len ? "...\n" : "\n");
    // A failed write must not stop the program.
    ssize_t written = write(log_fd, line.data, line.len);
    (void)written;
    errno = saved;
}
