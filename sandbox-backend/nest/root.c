// SPDX-License-Identifier: Apache-2.0
// The root directory of a guest.
//
// The layer is in memory, because a directory of the host has no size. bwrap mounts NEST_ROOT as
// the guest's root, so the guest cannot see the directories beside it.
#include "sandbox-backend/nest/root.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/nest/nest.h"
#include "sandbox-backend/nest/users.h"

#define UPPER NEST_STAGE "/upper"
#define WORK  NEST_STAGE "/work"

static int open_dir(const char *path, struct err *e)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        err_sys(e, errno, "open %s", path);
    return fd;
}

static int make_stage(const struct root_spec *spec, struct err *e)
{
    static const char *const DIRS[] = {UPPER, WORK, NEST_ROOT, NEST_TOOLS};
    char *size auto_free = str_printf("size=%lldm,mode=755", (long long)spec->layer_mb);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return err_sys(e, errno, "make the mounts private");
    if (mount("tmpfs", NEST_STAGE, "tmpfs", MS_NOSUID | MS_NODEV, size) < 0)
        return err_sys(e, errno, "mount a tmpfs");
    for (size_t i = 0; i < ARRAY_LEN(DIRS); i++)
        if (mkdir(DIRS[i], 0755) < 0)
            return err_sys(e, errno, "make %s", DIRS[i]);
    return 0;
}

// debugfs, which has unpacked the template, keeps no sticky bits. A template may lack a directory.
static void mend_modes(void)
{
    static const char *const SHARED[] = {NEST_ROOT "/tmp", NEST_ROOT "/var/tmp"};
    for (size_t i = 0; i < ARRAY_LEN(SHARED); i++)
        if (chmod(SHARED[i], 01777) < 0)
            continue;
}

int root_make(const struct root_spec *spec, struct err *e)
{
    int template auto_close = open_dir(spec->template, e);
    int tools auto_close = template <0 ? -1 : open_dir(spec->tools, e);
    if (tools < 0 || users_become_root(e) < 0 || make_stage(spec, e) < 0)
        return -1;
    // The paths of descriptors have neither commas nor colons, and no directory above them that
    // this user may not enter.
    char *options auto_free = str_printf(
        "userxattr,lowerdir=/proc/self/fd/%d,upperdir=" UPPER ",workdir=" WORK, template);
    char *from auto_free = str_printf("/proc/self/fd/%d", tools);
    if (mount("overlay", NEST_ROOT, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
        return err_sys(e, errno, "mount an overlay of %s", spec->template);
    if (mount(from, NEST_TOOLS, NULL, MS_BIND, NULL) < 0)
        return err_sys(e, errno, "mount %s", spec->tools);
    mend_modes();
    return 0;
}
