// SPDX-License-Identifier: Apache-2.0
// cubby selftest: its state directory and its daemon.
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/selftest/selftest.h"

#define ENDED_MS 20000 // for a killed daemon to be gone

// The templates stay where they are: a sandbox only reads its template.
static int link_templates(const struct selftest *t, struct err *e)
{
    char *from auto_free = home_path(t->user_home, "templates");
    char *to auto_free = home_path(t->home, "templates");
    if (file_exists(from) && symlink(from, to) < 0)
        return err_sys(e, errno, "link %s", to);
    return 0;
}

int home_begin(struct selftest *t, struct err *e)
{
    char *user_home auto_free = home_open(e);
    if (!user_home)
        return -1;
    // On the file system of the user's sandboxes, so that the times are theirs.
    char *home auto_free = str_printf("%s/test.XXXXXX", user_home);
    if (!mkdtemp(home))
        return err_sys(e, errno, "make %s", home);
    t->user_home = steal(&user_home);
    t->home = steal(&home);
    setenv("CUBBY_HOME", t->home, 1);
    // The first daemon keeps no sandboxes ready, so that each create shows its whole time.
    setenv("CUBBY_POOL", "off", 1);
    // The step "network" allows an address of this host, which may be a private one. The user's own
    // daemon may have the addresses that the environment names.
    setenv("CUBBY_ALLOW_PRIVATE_NETWORK", "1", 1);
    unsetenv("CUBBY_LISTEN");
    return link_templates(t, e);
}

int home_connect(struct selftest *t, struct err *e)
{
    const struct backend_opts here = {.backend = "local"};
    if (connection_open(&t->c, &here, CONNECT_STARTS, e) < 0)
        return -1;
    t->is_connected = true;
    return 0;
}

static void disconnect(struct selftest *t)
{
    if (t->is_connected)
        connection_close(&t->c);
    t->is_connected = false;
}

// Return a pidfd of the daemon, or -1.
static int daemon_pidfd(const struct selftest *t)
{
    struct ucred peer = {0};
    socklen_t len = sizeof peer;
    char *path auto_free = home_path(t->home, "cubbyd.sock");
    int fd auto_close = fd_connect_unix(path);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.pid <= 0)
        return -1;
    return (int)syscall(SYS_pidfd_open, peer.pid, 0);
}

int home_kill_daemon(struct selftest *t, struct err *e)
{
    int process auto_close = daemon_pidfd(t);
    if (process < 0)
        return err_set(e, ERR_NOT_FOUND, "the daemon of the test was not found");
    disconnect(t);
    if (syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) < 0)
        return err_sys(e, errno, "kill the daemon of the test");
    struct pollfd ended = {.fd = process, .events = POLLIN};
    if (poll(&ended, 1, ENDED_MS) <= 0)
        return err_set(e, ERR_TIMEOUT, "the daemon did not end after SIGKILL");
    return 0;
}

int home_end(struct selftest *t, struct err *e)
{
    bool was_there = false;
    disconnect(t);
    if (!t->home)
        return 0;
    int rc = daemon_end(t->home, SIGTERM, &was_there, e);
    if (rc == 0)
        rc = dir_remove(t->home, e);
    return rc;
}
