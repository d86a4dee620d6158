// SPDX-License-Identifier: Apache-2.0
// A pseudo terminal.
#include "sandbox-backend/envd/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define MODE 0620 // as login(1) leaves a terminal

int pty_resize(int ours, struct pty_size size, struct err *e)
{
    const struct winsize w = {.ws_col = size.cols, .ws_row = size.rows};
    return ioctl(ours, TIOCSWINSZ, &w) < 0 ? err_sys(e, errno, "set the terminal's size") : 0;
}

// By its number, not by its name: the name may lead to another devpts.
static int open_peer(int ours)
{
    int unlock = 0;
    if (ioctl(ours, TIOCSPTLCK, &unlock) < 0)
        return -1;
    return ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

int pty_open(struct pty_size size, uid_t owner, int *ours, int *theirs, struct err *e)
{
    int master auto_close = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    int slave auto_close = master < 0 ? -1 : open_peer(master);
    if (slave < 0)
        return err_sys(e, errno, "make a pseudo terminal");
    if (fchown(slave, owner, (gid_t)-1) == 0)
        fchmod(slave, MODE);
    if (pty_resize(master, size, e) < 0)
        return -1;
    *ours = steal_fd(&master);
    *theirs = steal_fd(&slave);
    return 0;
}
