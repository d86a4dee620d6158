// SPDX-License-Identifier: Apache-2.0
// The size of the guest's disk.
#include "sandbox-backend/envd/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define DEVICE    "/dev/vda"
#define ROOT      "/"
#define MB        ((int64_t)1 << 20)
#define STEP_MS   5 // the device has told the kernel, whose worker looks in its own time
#define STEPS_MAX 400
#define NS_PER_MS 1000000L
// ext4's, which no header for programs has (Documentation/filesystems/ext4 of the kernel).
#define EXT4_IOC_RESIZE_FS _IOW('f', 16, uint64_t)

static int wait_for_size(int64_t bytes, struct err *e)
{
    const struct timespec step = {.tv_nsec = STEP_MS * NS_PER_MS};
    uint64_t now = 0;
    int fd auto_close = open(DEVICE, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(e, errno, "open " DEVICE);
    for (int i = 0; i < STEPS_MAX; i++) {
        if (ioctl(fd, BLKGETSIZE64, &now) < 0)
            return err_sys(e, errno, "ask " DEVICE " for its size");
        if ((int64_t)now >= bytes)
            return 0;
        nanosleep(&step, NULL);
    }
    return err_set(e, ERR_TIMEOUT, DEVICE " has %lld MB, and %lld were announced",
                   (long long)((int64_t)now / MB), (long long)(bytes / MB));
}

int disk_grow(int64_t mb, struct err *e)
{
    struct statfs fs;
    int root auto_close = open(ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (wait_for_size(mb * MB, e) < 0)
        return -1;
    if (root < 0 || fstatfs(root, &fs) < 0)
        return err_sys(e, errno, "look at the root file system");
    uint64_t blocks = (uint64_t)(mb * MB / fs.f_bsize);
    if (ioctl(root, EXT4_IOC_RESIZE_FS, &blocks) < 0)
        return err_sys(e, errno, "grow the root file system");
    return 0;
}
