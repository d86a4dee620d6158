// SPDX-License-Identifier: Apache-2.0
// Messages of init on the console, and the end of the machine.
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
    // The console may be gone or full; there is no other place to report to.
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
    // Reached only without CAP_SYS_BOOT, which init in a machine has. The exit of PID 1 panics the
    // guest kernel, and panic=-1 on its command line turns that into a reboot.
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
