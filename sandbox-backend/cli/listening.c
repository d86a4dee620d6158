// SPDX-License-Identifier: Apache-2.0
// Where the daemon of a home listens.
#include "sandbox-backend/cli/listening.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/daemon_phase.h"

#define URL_BYTES_MAX 300

// One that was killed has left its file behind.
static bool runs(const char *home)
{
    enum daemon_phase phase = DAEMON_NONE;
    struct err e = ERR_INIT;
    return daemon_phase(home, &phase, &e) == 0 && phase != DAEMON_NONE;
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
