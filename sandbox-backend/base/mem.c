// SPDX-License-Identifier: Apache-2.0
// Allocation, and cleanup attributes for straight-line code.
#include "sandbox-backend/base/mem.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GIVE_BACK_BYTES 131072 // of JSON text: parsed, it may have taken 10 MB of memory

static void *checked(void *p)
{
    if (!p) {
        static const char MSG[] = "out of memory\n";
        ssize_t n = write(STDERR_FILENO, MSG, sizeof MSG - 1);
        (void)n;
        abort();
    }
    return p;
}

void *xmalloc(size_t size)
{
    return checked(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t size)
{
    return checked(realloc(p, size ? size : 1));
}

char *xstrdup(const char *s)
{
    return checked(strdup(s));
}

char *xstrndup(const char *s, size_t len)
{
    char *copy = xmalloc(len + 1);
    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

void *xmemdup(const void *p, size_t size)
{
    void *copy = xmalloc(size);
    if (size)
        memcpy(copy, p, size);
    return copy;
}

void *try_malloc(size_t size)
{
    return malloc(size ? size : 1);
}

void *try_realloc(void *p, size_t size)
{
    return realloc(p, size ? size : 1);
}

void mem_give_back(size_t bytes)
{
    if (bytes >= GIVE_BACK_BYTES)
        malloc_trim(0);
}

void mem_free_ptr(void *pp)
{
    free(*(void **)pp);
}

void mem_close_fd(const int *fd)
{
    if (*fd < 0)
        return;
    int saved = errno;
    close(*fd);
    errno = saved;
}

int steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}
