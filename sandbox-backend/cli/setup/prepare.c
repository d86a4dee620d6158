// SPDX-License-Identifier: Apache-2.0
// cubby setup --prepare: make the template in the background, for cubby-mcp --prepare.
//
// The output goes to <home>/prepare.log, whose last line is what a tool answers with meanwhile. Of
// several preparations of a home, one works. The others wait for its lock, and then find the
// template there.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/setup/setup.h"
#include "sandbox-backend/drivers/host/arch.h"
#include "sandbox-backend/drivers/host/tool.h"
#include "sandbox-backend/host/distribution.h"

#define LOG_NAME  "prepare.log"
#define LOCK_NAME "prepare.lock"

// Send stdout and stderr to the log. Return its descriptor, or -1.
static int redirect(const char *home, struct err *e)
{
    char *path auto_free = home_path(home, LOG_NAME);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return err_sys(e, errno, "open %s", path);
    fflush(stdout);
    if (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
        err_sys(e, errno, "write to %s", path);
        close(log);
        return -1;
    }
    return log;
}

// Wait until no other process prepares this home. Return the descriptor that holds the lock, or -1.
static int lock(const char *home, struct err *e)
{
    char *path auto_free = home_path(home, LOCK_NAME);
    int fd auto_close = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(e, errno, "open %s", path);
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return err_sys(e, errno, "lock %s", path);
    return steal_fd(&fd);
}

// Name all missing programs at once, so that the user installs them with one command.
static int check_programs(struct err *e)
{
    const char *set = getenv("CUBBY_QEMU");
    char *qemu auto_free =
        set && *set ? xstrdup(set) : tool_find(ARCH_QEMU, ARCH_QEMU_PACKAGE, NULL);
    char *image auto_free = tool_find("qemu-img", "qemu-utils", NULL);
    if (qemu && image)
        return 0;
    char *how auto_free = distribution_install(ARCH_QEMU_PACKAGE " qemu-utils");
    return err_set(e, ERR_NOT_FOUND, "QEMU is not installed (%s); to install it: %s",
                   qemu ? "qemu-img is missing" : ARCH_QEMU " is missing", how);
}

int setup_prepare(const char *home)
{
    struct err e = ERR_INIT;
    int log auto_close = redirect(home, &e);
    int held auto_close = log < 0 ? -1 : lock(home, &e);
    if (held < 0)
        return cli_fail(&e);
    if (first_has_template(home))
        return 0;
    if (ftruncate(log, 0) < 0)
        err_sys(&e, errno, "empty " LOG_NAME);
    if (err_is(&e) || check_programs(&e) < 0)
        return cli_fail(&e);
    int status = setup_template(false);
    if (status == 0)
        setup_finish(home);
    return status;
}
