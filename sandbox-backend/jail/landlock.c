// SPDX-License-Identifier: Apache-2.0
// Landlock (landlock(7)).
#include "sandbox-backend/jail/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/jail/jail.h"

// The kernel's interface; Debian's headers do not have these versions yet.
#define VERSION_FLAG 1u
#define RULE_BENEATH 1
#define FS_EXECUTE   (1ull << 0)
#define FS_WRITE     (1ull << 1)
#define FS_READ      (1ull << 2)
#define FS_READ_DIR  (1ull << 3)
#define FS_IOCTL_DEV (1ull << 15)
// Not for a directory that is served: to run files, to make devices, sockets and pipes.
#define FS_NOT_SHARED (FS_EXECUTE | 1ull << 6 | 1ull << 9 | 1ull << 10 | 1ull << 11 | FS_IOCTL_DEV)
#define NET_ALL       3ull // bind, connect
#define SCOPE_ALL     3ull // abstract sockets, signals
#define ABI_NET       4
#define ABI_SCOPE     6

struct ruleset_attr {
    uint64_t fs, net, scoped;
};

struct beneath_attr {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

// Return all file rights of a version: 13 in the first one.
static uint64_t fs_rights(int abi)
{
    int bits = abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;
    return (1ull << bits) - 1;
}

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION_FLAG);
    return abi > 0 ? (int)abi : 0;
}

// The kernel refuses rights of directories for a file.
static int allow(int ruleset, const char *path, uint64_t rights, uint64_t handled, struct err *e)
{
    struct stat st;
    int fd auto_close = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0)
        return err_sys(e, errno, "open %s", path);
    if (!S_ISDIR(st.st_mode))
        rights &= ~FS_READ_DIR;
    const struct beneath_attr rule = {.allowed = rights & handled, .parent = fd};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_BENEATH, &rule, 0) != 0)
        return err_sys(e, errno, "allow %s", path);
    return 0;
}

// Allow single devices only. If the process has no root directory of its own, /dev is the host's,
// with shared memory and terminals of the same user.
static int allow_devices(int ruleset, bool kvm, uint64_t handled, struct err *e)
{
    static const char *const DEVICES[] = {JAIL_DEVICES};
    const uint64_t use = FS_READ | FS_WRITE | FS_IOCTL_DEV;
    for (size_t i = 0; i < ARRAY_LEN(DEVICES); i++)
        if (allow(ruleset, DEVICES[i], use, handled, e) != 0)
            return -1;
    return kvm ? allow(ruleset, JAIL_KVM, use, handled, e) : 0;
}

static int allow_share(int ruleset, const struct landlock_rules *rules, uint64_t handled,
                       struct err *e)
{
    uint64_t rights = rules->share_read_only ? FS_READ | FS_READ_DIR : handled & ~FS_NOT_SHARED;
    const struct beneath_attr rule = {.allowed = rights & handled, .parent = rules->share};
    if (rules->share < 0)
        return 0;
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_BENEATH, &rule, 0) != 0)
        return err_sys(e, errno, "allow the directory");
    return 0;
}

static int allow_files(int ruleset, const struct landlock_rules *rules, uint64_t handled,
                       struct err *e)
{
    const uint64_t look = FS_READ | FS_READ_DIR | FS_EXECUTE;
    for (int i = 0; rules->files && i < rules->count; i++)
        if (allow(ruleset, rules->files[i], look, handled, e) != 0)
            return -1;
    if (rules->resolves && access(JAIL_RESOLV_CONF, F_OK) == 0 &&
        allow(ruleset, JAIL_RESOLV_CONF, look, handled, e) != 0)
        return -1;
    return rules->files ? 0 : allow(ruleset, "/", look, handled, e);
}

int landlock_enforce(const struct landlock_rules *rules, struct err *e)
{
    int abi = landlock_abi();
    struct ruleset_attr attr = {.fs = fs_rights(abi)};
    // A kernel refuses a non-zero field that it does not know, but accepts a longer struct of
    // zeros.
    if (abi >= ABI_NET && !rules->tcp)
        attr.net = NET_ALL;
    if (abi >= ABI_SCOPE)
        attr.scoped = SCOPE_ALL;
    int ruleset auto_close =
        abi ? (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0) : -1;
    if (ruleset < 0)
        return abi ? err_sys(e, errno, "make a Landlock ruleset")
                   : err_set(e, ERR_PRECONDITION,
                             "this kernel has no Landlock, or it is not enabled");
    if (allow_files(ruleset, rules, attr.fs, e) != 0 ||
        allow_share(ruleset, rules, attr.fs, e) != 0 ||
        allow_devices(ruleset, rules->kvm, attr.fs, e) != 0)
        return -1;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        return err_sys(e, errno, "enforce Landlock");
    return 0;
}
