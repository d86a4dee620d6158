// SPDX-License-Identifier: Apache-2.0
// Where the daemon of a home listens.
#include "sandbox-backend/cli/listening.h"

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"

#define URL_BYTES_MAX 300

// A daemon holds its lock for as long as it runs. One that was killed has left its file behind.
static bool runs(const char *home)
{
    char *path auto_free = home_path(home, "cubbyd.lock");
    int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

char *listening_url(const char *home)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = home_path(home, "cubbyd.url");
    if (!runs(home) || file_read(path, URL_BYTES_MAX, &text, NULL) < 0)
        return NULL;
    const char *url = buf_str(&text);
    size_t len = strcspn(url, "\n");
    return len ? xstrndup(url, len) : NULL;
}
