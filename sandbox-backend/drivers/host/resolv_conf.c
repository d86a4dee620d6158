// SPDX-License-Identifier: Apache-2.0
// A copy of the host's /etc/resolv.conf.
#include "sandbox-backend/drivers/host/resolv_conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/log/log.h"

#define SOURCE    "/etc/resolv.conf"
#define COPY      "resolv.conf"
#define BYTES_MAX 65536
#define LOOK_MS   3000

static struct {
    char *path;         // owned; NULL: there is no copy
    uv_fs_poll_t *poll; // owned; freed when the handle is closed
} copy;

// Rewrite the copy in place: processes have this very file in their roots. A reader sees the old or
// the new text; if the new text is shorter, empty lines follow it for a moment.
static int update(struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct stat st;
    int fd auto_close = open(copy.path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    // The users of jails must be able to read the file, whatever the daemon's umask is.
    if (fd < 0 || fstat(fd, &st) != 0 || fchmod(fd, 0644) != 0)
        return err_sys(e, errno, "open %s", copy.path);
    file_read(SOURCE, BYTES_MAX, &text, NULL);
    size_t len = text.len;
    while ((off_t)text.len < st.st_size)
        buf_addc(&text, '\n');
    if (pwrite(fd, buf_str(&text), text.len, 0) != (ssize_t)text.len ||
        ftruncate(fd, (off_t)len) != 0)
        return err_sys(e, errno, "write %s", copy.path);
    return 0;
}

static void on_change(uv_fs_poll_t *poll, int status, const uv_stat_t *before, const uv_stat_t *now)
{
    (void)poll, (void)status, (void)before, (void)now;
    struct err e = ERR_INIT;
    if (update(&e) != 0)
        log_warn("resolv_conf", "error=\"%s\"", e.msg);
    else
        log_info("resolv_conf", SOURCE " has changed");
}

int resolv_conf_open(uv_loop_t *loop, const char *dir, struct err *e)
{
    copy.path = str_printf("%s/" COPY, dir);
    if (update(e) != 0)
        return -1;
    copy.poll = xcalloc(1, sizeof *copy.poll);
    uv_fs_poll_init(loop, copy.poll);
    uv_unref((uv_handle_t *)copy.poll);
    int failed = uv_fs_poll_start(copy.poll, on_change, SOURCE, LOOK_MS);
    return failed ? err_sys(e, -failed, "watch " SOURCE) : 0;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

void resolv_conf_close(void)
{
    if (copy.poll)
        uv_close((uv_handle_t *)steal(&copy.poll), on_closed);
    free(steal(&copy.path));
}

const char *resolv_conf_copy(void)
{
    return copy.path;
}
