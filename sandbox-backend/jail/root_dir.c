// SPDX-License-Identifier: Apache-2.0
// A root directory that holds only what the process needs, read-only.
//
// It is a tmpfs with one bind mount for each file. None of them can be replaced or written, and it
// holds no directory of the host, so nothing can appear there later.
#include "sandbox-backend/jail/root_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/jail/jail.h"

// Any directory will do that is not on the way to a file of the list.
#define NEW_ROOT "/proc"
#define SIZE     "size=256k,nr_inodes=2k,mode=0755" // it holds names only

// linux/mount.h has these, but it cannot be included together with glibc's header.
#ifndef MOUNT_ATTR_RDONLY
#define MOUNT_ATTR_RDONLY 0x1
#define MOUNT_ATTR_NOSUID 0x2
#define MOUNT_ATTR_NODEV  0x4
struct mount_attr {
    uint64_t attr_set, attr_clr, propagation, userns_fd;
};
#endif
#ifndef AT_RECURSIVE
#define AT_RECURSIVE 0x8000
#endif

static const char *const DEVICES[] = {JAIL_DEVICES};

static int set_attributes(const char *path, unsigned flags, uint64_t on, uint64_t off,
                          struct err *e)
{
    struct mount_attr attr = {.attr_set = on, .attr_clr = off};
    if (syscall(SYS_mount_setattr, AT_FDCWD, path, flags, &attr, sizeof attr) == 0)
        return 0;
    int sys = errno;
    return err_sys(e, sys, "make %s read-only%s", path,
                   sys == ENOSYS ? " (Linux 5.12 or newer is needed)" : "");
}

// Set `out` to the path below NEW_ROOT at which the host's `path` is shown.
static int target_of(const char *path, char out[PATH_MAX], struct err *e)
{
    if (path[0] != '/' || strstr(path, "/../") ||
        (size_t)snprintf(out, PATH_MAX, NEW_ROOT "%s", path) >= PATH_MAX)
        return err_set(e, ERR_INVALID, "\"%s\" is not an absolute path without ..", path);
    return 0;
}

static int make_parents(const char *target, struct err *e)
{
    char dir[PATH_MAX];
    snprintf(dir, sizeof dir, "%s", target);
    for (char *at = strchr(dir + sizeof NEW_ROOT, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        if (mkdir(dir, 0755) != 0 && errno != EEXIST)
            return err_sys(e, errno, "make the directory %s", dir + sizeof NEW_ROOT - 1);
        *at = '/';
    }
    return 0;
}

static int make_target(const char *target, struct err *e)
{
    const int flags = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC;
    int fd auto_close = open(target, flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        if (make_parents(target, e) != 0)
            return -1;
        fd = open(target, flags, 0600);
    }
    return fd < 0 && errno != EEXIST ? err_sys(e, errno, "make the mount point of a file") : 0;
}

static int bind_file(const char *path, const char *as, struct err *e)
{
    char target[PATH_MAX];
    if (target_of(as, target, e) != 0 || make_target(target, e) != 0)
        return -1;
    if (mount(path, target, NULL, MS_BIND, NULL) != 0)
        return err_sys(e, errno, "bind mount %s", path);
    return 0;
}

// Make a device of our own, so that it belongs to the user that the process becomes.
static int make_kvm(unsigned owner, struct err *e)
{
    struct stat st;
    if (stat(JAIL_KVM, &st) != 0)
        return err_sys(e, errno, JAIL_KVM);
    if (mknod(NEW_ROOT JAIL_KVM, S_IFCHR | 0600, st.st_rdev) != 0 ||
        chown(NEW_ROOT JAIL_KVM, owner, owner) != 0)
        return err_sys(e, errno, "make " JAIL_KVM);
    if (mount(NEW_ROOT JAIL_KVM, NEW_ROOT JAIL_KVM, NULL, MS_BIND, NULL) != 0)
        return err_sys(e, errno, "bind mount " JAIL_KVM);
    return 0;
}

static int add_devices(const struct root_dir *r, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(DEVICES); i++)
        if (bind_file(DEVICES[i], DEVICES[i], e) != 0)
            return -1;
    if (!r->kvm)
        return 0;
    return r->owner ? make_kvm(r->owner, e) : bind_file(JAIL_KVM, JAIL_KVM, e);
}

// Without MS_REC: what is mounted below the directory is not part of it.
static int add_share(const struct root_dir *r, struct err *e)
{
    if (!r->share)
        return 0;
    if (mkdir(NEW_ROOT JAIL_SHARE, 0755) != 0)
        return err_sys(e, errno, "make " JAIL_SHARE);
    if (mount(r->share, NEW_ROOT JAIL_SHARE, NULL, MS_BIND, NULL) != 0)
        return err_sys(e, errno, "bind mount %s", r->share);
    return 0;
}

static int add_proc(struct err *e)
{
    if (mkdir(NEW_ROOT "/proc", 0755) != 0 ||
        mount("proc", NEW_ROOT "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        return err_sys(e, errno, "mount /proc");
    return 0;
}

static int seal(const struct root_dir *r, struct err *e)
{
    if (set_attributes(NEW_ROOT, AT_RECURSIVE,
                       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, e) != 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(DEVICES); i++) {
        char target[PATH_MAX];
        if (target_of(DEVICES[i], target, e) != 0 ||
            set_attributes(target, 0, 0, MOUNT_ATTR_NODEV, e) != 0)
            return -1;
    }
    if (r->share && !r->share_read_only &&
        set_attributes(NEW_ROOT JAIL_SHARE, 0, 0, MOUNT_ATTR_RDONLY, e) != 0)
        return -1;
    return r->kvm ? set_attributes(NEW_ROOT JAIL_KVM, 0, 0, MOUNT_ATTR_NODEV, e) : 0;
}

static int go_there(struct err *e)
{
    if (chdir(NEW_ROOT) != 0 || syscall(SYS_pivot_root, ".", ".") != 0)
        return err_sys(e, errno, "make it the root directory");
    // The old root is now on top of the new one (pivot_root(2), "pivot_root(".", ".")").
    if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
        return err_sys(e, errno, "unmount the host's root directory");
    return 0;
}

static int fill(const struct root_dir *r, struct err *e)
{
    for (int i = 0; i < r->count; i++)
        if (bind_file(r->files[i], r->files[i], e) != 0)
            return -1;
    if (r->resolv_conf && bind_file(r->resolv_conf, JAIL_RESOLV_CONF, e) != 0)
        return -1;
    return add_share(r, e) != 0 || add_devices(r, e) != 0 || (r->proc && add_proc(e) != 0) ? -1 : 0;
}

int root_dir_enter(const struct root_dir *r, struct err *e)
{
    // Mounts must not propagate in either direction.
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return err_sys(e, errno, "make mounts private");
    if (mount("jail", NEW_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, SIZE) != 0)
        return err_sys(e, errno, "mount a tmpfs");
    mode_t mask = umask(022); // another user must read its directories
    int filled = fill(r, e);
    umask(mask);
    return filled == 0 && seal(r, e) == 0 ? go_there(e) : -1;
}
