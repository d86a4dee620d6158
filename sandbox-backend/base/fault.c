// SPDX-License-Identifier: Apache-2.0
// Fault points.
#include "sandbox-backend/base/fault.h"

#ifdef CUBBY_FAULTS
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

// The loop and the threads of the pool pass points.
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void trace(const char *file, const char *name)
{
    char *path auto_free = str_printf("%s.trace", file);
    char *line auto_free = str_printf("%s\n", name);
    int fd auto_close = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0)
        fd_write_all(fd, line, strlen(line), NULL);
}

// Return after how many passes the process ends; 0: never.
static long wanted(const char *file, const char *name)
{
    struct buf text auto_buf = BUF_INIT;
    size_t len = strlen(name);
    if (file_read(file, 4096, &text, NULL) < 0)
        return 0;
    const char *line = buf_str(&text);
    return strncmp(line, name, len) == 0 && line[len] == ':' ? atol(line + len + 1) : 0;
}

void fault_point(const char *name)
{
    static long passed; // passes of the wanted point
    const char *file = getenv("CUBBY_FAULT");
    if (!file)
        return;
    pthread_mutex_lock(&turn);
    trace(file, name);
    long end = wanted(file, name);
    if (end && ++passed >= end)
        kill(getpid(), SIGKILL);
    pthread_mutex_unlock(&turn);
}
#endif
