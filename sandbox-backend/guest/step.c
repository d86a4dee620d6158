// SPDX-License-Identifier: Apache-2.0
// What PID 1 says on the console, and how it gives up.
#include "sandbox-backend/guest/step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <unistd.h>

static void say(const char *fmt, va_list ap)
{
    char line[512];
    int n = snprintf(line, sizeof(line), "cubby-init: ");
    int m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
    size_t len = (size_t)n + (m < 0 ? 0 : (size_t)m);
    if (len > sizeof(line) - 2)
        len = sizeof(line) - 2;
    line[len++] = '\n';
    // The console may be gone or full; there is nobody else to tell.
    ssize_t ignored = write(STDERR_FILENO, line, len);
    (void)ignored;
}

void step_say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
}

void step_fatal(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    say(fmt, ap);
    va_end(ap);
    step_end_machine();
}

void step_end_machine(void)
{
    sync();
    reboot(RB_AUTOBOOT);
    // Only without CAP_SYS_BOOT, which PID 1 of a machine has. Its exit panics the kernel, and
    // panic=-1 on the command line makes that a reboot.
    _exit(1);
}

void step_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        step_say("%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
}
