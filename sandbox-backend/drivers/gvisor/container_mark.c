// SPDX-License-Identifier: Apache-2.0
// A file in the container's directory tells a later daemon whether the guest stands still. The
// daemon may end before a call, or after the call and before its answer; the sentry obeys the call
// nevertheless. So a separate mark exists from before a call until its answer.
//
// One mark becomes another by rename(2), which needs no room on the disk.
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/drivers/gvisor/container.h"

static const char *const NAMES[] = {[MARK_CHANGING] = "changing", [MARK_PAUSED] = "paused"};

static char *path_of(const struct container *c, enum container_mark mark)
{
    return container_dir_file(&c->dir, NAMES[mark]);
}

enum container_mark container__marked(const struct container *c)
{
    char *changing auto_free = path_of(c, MARK_CHANGING);
    char *paused auto_free = path_of(c, MARK_PAUSED);
    if (file_exists(changing))
        return MARK_CHANGING;
    return file_exists(paused) ? MARK_PAUSED : MARK_NONE;
}

int container__mark(const struct container *c, enum container_mark mark, struct err *e)
{
    char *changing auto_free = path_of(c, MARK_CHANGING);
    char *paused auto_free = path_of(c, MARK_PAUSED);
    if (mark == MARK_NONE) {
        unlink(paused);
        return unlink(changing) == 0 || errno == ENOENT ? 0
                                                        : err_sys(e, errno, "remove %s", changing);
    }
    const char *from = mark == MARK_PAUSED ? changing : paused;
    const char *to = mark == MARK_PAUSED ? paused : changing;
    if (rename(from, to) == 0)
        return 0;
    return errno == ENOENT ? file_replace(to, "", 0, 0600, e)
                           : err_sys(e, errno, "rename %s", from);
}
