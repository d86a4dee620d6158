// SPDX-License-Identifier: Apache-2.0
// What the daemon of a home is at.
#include "sandbox-backend/cli/daemon_phase.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"

#define TEXT_BYTES_MAX 100

// "<pid>\n", and once it stops a second line that says so.
static bool says_that_it_stops(int lock)
{
    struct buf text auto_buf = BUF_INIT;
    return fd_read_all(lock, TEXT_BYTES_MAX, &text, NULL) == 0 &&
           strstr(buf_str(&text), "\nstopping\n");
}

int daemon_phase(const char *home, enum daemon_phase *out, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.lock");
    int lock auto_close = open(path, O_RDONLY | O_CLOEXEC);
    if (lock < 0 && errno != ENOENT)
        return err_sys(e, errno, "open %s", path);
    if (lock < 0 || flock(lock, LOCK_SH | LOCK_NB) == 0)
        *out = DAEMON_NONE;
    else
        *out = says_that_it_stops(lock) ? DAEMON_STOPS : DAEMON_RUNS;
    return 0;
}

bool daemon_phase_explains(const char *home, const struct err *why, enum daemon_phase *out)
{
    struct err unknown = ERR_INIT;
    return daemon_phase(home, out, &unknown) == 0 &&
           (*out == DAEMON_STOPS || why->code == ERR_UNAVAILABLE);
}
