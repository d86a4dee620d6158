// SPDX-License-Identifier: Apache-2.0
// Whether the kernel has ended programs because memory ran out (proc(5), /proc/vmstat).
//
// The count is the machine's. One for each command would need the memory controller in its cgroup,
// which then has its hand in each page of each command.
#include "sandbox-backend/envd/out_of_memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD      "\noom_kill "
#define TEXT_BYTES 16384

int out_of_memory_open(void)
{
    return open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
}

int64_t out_of_memory_kills(int fd)
{
    static char text[TEXT_BYTES]; // one loop, one thread
    size_t len = 0;
    ssize_t n;
    while (fd >= 0 && len < sizeof text - 1 &&
           (n = pread(fd, text + len, sizeof text - 1 - len, (off_t)len)) > 0) {
        len += (size_t)n;
        text[len] = '\0';
        const char *field = strstr(text, FIELD);
        if (field && strchr(field + 1, '\n'))
            return strtoll(field + strlen(FIELD), NULL, 10);
    }
    return 0;
}
