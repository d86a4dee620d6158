// SPDX-License-Identifier: Apache-2.0
// The file systems of the guest: init begins in the initramfs and changes to the disk as its root.
#include "sandbox-backend/guest/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/guest/step.h"

#define NEW_ROOT        "/disk"
#define DISK_WAIT_STEPS 500
#define DISK_STEP_MS    10

static void mount_at(const char *what, const char *where, const char *type, unsigned long flags,
                     const char *data)
{
    if (mkdir(where, 0755) < 0 && errno != EEXIST)
        step_say("mkdir %s: %s", where, strerror(errno));
    if (mount(what, where, type, flags, data) < 0 && errno != EBUSY)
        step_say("mount %s on %s: %s", type ? type : what, where, strerror(errno));
}

static void open_console(void)
{
    int fd = open("/dev/console", O_RDWR | O_NOCTTY);
    if (fd < 0)
        fd = open("/dev/null", O_RDWR);
    if (fd < 0)
        return;
    for (int i = 0; i <= STDERR_FILENO; i++)
        if (fd != i)
            dup2(fd, i);
    if (fd > STDERR_FILENO)
        close(fd);
}

void mounts_early(void)
{
    mount_at("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_at("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_at("dev", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
    open_console();
}

// The driver finds the disk some time after its module is loaded.
static void wait_for_disk(void)
{
    const struct timespec pause = {.tv_nsec = DISK_STEP_MS * 1000000L};
    for (int i = 0; i < DISK_WAIT_STEPS; i++) {
        if (access(MOUNTS_DISK, F_OK) == 0)
            return;
        nanosleep(&pause, NULL);
    }
    step_fatal("there is no " MOUNTS_DISK ": does the kernel have virtio_mmio and virtio_blk?");
}

static void switch_root(void)
{
    static const char *const MOVED[] = {"/dev", "/proc", "/sys"};
    for (size_t i = 0; i < sizeof(MOVED) / sizeof(MOVED[0]); i++) {
        char to[64];
        snprintf(to, sizeof(to), NEW_ROOT "%s", MOVED[i]);
        mkdir(to, 0755);
        if (mount(MOVED[i], to, NULL, MS_MOVE, NULL) < 0)
            step_fatal("mount --move %s: %s", MOVED[i], strerror(errno));
    }
    if (chdir(NEW_ROOT) < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
        chdir("/") < 0)
        step_fatal("the disk cannot become the root: %s", strerror(errno));
}

static void link_at(const char *target, const char *path)
{
    if (symlink(target, path) < 0 && errno != EEXIST)
        step_say("%s: %s", path, strerror(errno));
}

static void mounts_late(void)
{
    mount_at("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
             "mode=0620,gid=5,ptmxmode=0666");
    mount_at("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    mount_at("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755");
    mount_at("cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    mount_at("run", "/run/lock", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=1777,size=4m");
    link_at("/proc/self/fd", "/dev/fd");
    link_at("/proc/self/fd/0", "/dev/stdin");
    link_at("/proc/self/fd/1", "/dev/stdout");
    link_at("/proc/self/fd/2", "/dev/stderr");
    link_at("/proc/mounts", "/etc/mtab");
}

void mounts_enter_disk(void)
{
    wait_for_disk();
    if (mkdir(NEW_ROOT, 0755) < 0 && errno != EEXIST)
        step_fatal("mkdir " NEW_ROOT ": %s", strerror(errno));
    if (mount(MOUNTS_DISK, NEW_ROOT, "ext4", MS_NOATIME, NULL) < 0)
        step_fatal("mount " MOUNTS_DISK ": %s", strerror(errno));
    switch_root();
    mounts_late();
}
