// SPDX-License-Identifier: Apache-2.0
// One daemon for a home.
#include "sandbox-backend/daemon/home_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"

#define LOOK_EVERY_MS 10

// The process that made the socket listen. A child that a killed daemon had just begun to start has
// that socket, and the lock, until it executes.
static bool is_listener_alive(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0 ||
           kill(peer.pid, 0) == 0 || errno != ESRCH;
}

static bool listens(const char *path)
{
    int fd auto_close = fd_connect_unix(path);
    return fd < 0 ? errno == EAGAIN : is_listener_alive(fd);
}

// For people, and for `cubby daemon`.
static void note(int fd, const char *what)
{
    char text[64];
    int len = snprintf(text, sizeof text, "%d\n%s", (int)getpid(), what);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)len, 0) < 0) {
        // a full disk: that a daemon runs is the lock's to say
    }
}

int home_lock(const char *home, struct err *e)
{
    char *path auto_free = home_path(home, "cubbyd.lock");
    char *sock auto_free = home_path(home, "cubbyd.sock");
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    int64_t until = clock_mono_ms() + HOME_LOCK_WAIT_MS;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return err_sys(e, errno, "lock %s", path);
        if (listens(sock) || clock_mono_ms() > until)
            return err_set(e, ERR_EXISTS, "cubbyd already runs for %s", home);
        poll(NULL, 0, LOOK_EVERY_MS);
    }
    note(fd, "");
    return steal_fd(&fd);
}

void home_lock_stopping(int lock)
{
    note(lock, "stopping\n");
}
