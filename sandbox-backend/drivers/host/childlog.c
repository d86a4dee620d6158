// SPDX-License-Identifier: Apache-2.0
// Logs of bounded size for processes that outlive the daemon: sealed memory files
// (memfd_create(2)).
#include "sandbox-backend/drivers/host/childlog.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/log/log.h"

#define LINE_SHOWN_MAX 200

char *childlog_printable(const char *s, size_t len, size_t max)
{
    size_t n = 0;
    char *out = xmalloc(max + 1);
    for (; n < len && n < max && s[n] != '\n' && s[n] != '\r'; n++)
        out[n] = s[n] >= ' ' && s[n] <= '~' ? s[n] : '?';
    out[n] = '\0';
    return out;
}

int childlog_open(const char *name, struct err *e)
{
    int fd auto_close = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return err_sys(e, errno, "make a log in memory");
    // Writing past the end of a file that may not grow fails with EPERM, which a logger ignores.
    if (ftruncate(fd, CHILDLOG_BYTES) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0)
        return err_sys(e, errno, "limit the size of a log in memory");
    return steal_fd(&fd);
}

int childlog_reopen(pid_t pid)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/fd/2", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void childlog_read(int fd, struct buf *out)
{
    char text[CHILDLOG_BYTES];
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof text, 0);
    if (n > 0)
        buf_add(out, text, strnlen(text, (size_t)n));
}

char *childlog_last_line(int fd)
{
    struct buf text auto_buf = BUF_INIT;
    childlog_read(fd, &text);
    while (text.len > 0 && strchr("\r\n ", text.data[text.len - 1]))
        text.data[--text.len] = '\0';
    const char *at = strrchr(buf_str(&text), '\n');
    at = at ? at + 1 : buf_str(&text);
    return childlog_printable(at, strlen(at), LINE_SHOWN_MAX);
}

char *childlog_first_line(int fd)
{
    struct buf text auto_buf = BUF_INIT;
    childlog_read(fd, &text);
    const char *at = buf_str(&text);
    at += strspn(at, "\r\n ");
    return childlog_printable(at, strlen(at), LINE_SHOWN_MAX);
}

void childlog_save(int fd, const char *path)
{
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    struct buf shown auto_buf = BUF_INIT;
    childlog_read(fd, &text);
    // A process under an attacker's control may have written any bytes, and people will read them.
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        size_t len = end ? (size_t)(end - text.data) - at : text.len - at;
        visible_add(&shown, text.data + at, len);
        buf_addc(&shown, '\n');
        at += len + 1;
    }
    if (shown.len > 0 && file_replace(path, shown.data, shown.len, 0600, &e) != 0)
        log_warn("childlog.unsaved", "path=%s error=\"%s\"", path, e.msg);
}
