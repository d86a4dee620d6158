// SPDX-License-Identifier: Apache-2.0
// Who the process is, and what it may do for that.
#include "sandbox-backend/jail/identity.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define SECURE_ALL                                                                           \
    (SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |                         \
     SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE | \
     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED)

// libcap would be a library for these two calls.
static int get_capabilities(struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return (int)syscall(SYS_capget, &header, data);
}

static int set_capabilities(const struct __user_cap_data_struct data[2])
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    return (int)syscall(SYS_capset, &header, data);
}

int identity_become(unsigned id, struct err *e)
{
    struct __user_cap_data_struct had[2];
    if (setgroups(0, NULL) != 0)
        return err_sys(e, errno, "leave all groups");
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0 || setresgid(id, id, id) != 0 ||
        setresuid(id, id, id) != 0)
        return err_sys(e, errno, "become user %u", id);
    // They are kept as permitted ones only.
    if (get_capabilities(had) != 0)
        return err_sys(e, errno, "read the capabilities");
    for (size_t i = 0; i < ARRAY_LEN(had); i++)
        had[i].effective = had[i].permitted;
    return set_capabilities(had) == 0 ? 0 : err_sys(e, errno, "keep the capabilities");
}

static int drop_bounding_set(struct err *e)
{
    for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EPERM)
            return err_sys(e, errno, "drop capability %lu", cap);
    return 0;
}

int identity_drop(struct err *e)
{
    static const struct __user_cap_data_struct none[2];
    struct __user_cap_data_struct left[2];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return err_sys(e, errno, "set no_new_privs");
    // Without a namespace of its own a rootless process may do neither, and needs neither.
    if (drop_bounding_set(e) != 0)
        return -1;
    if (prctl(PR_SET_SECUREBITS, SECURE_ALL, 0, 0, 0) != 0 && errno != EPERM)
        return err_sys(e, errno, "set the secure bits");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 ||
        set_capabilities(none) != 0)
        return err_sys(e, errno, "drop the capabilities");
    if (get_capabilities(left) != 0)
        return err_sys(e, errno, "read the capabilities");
    if (left[0].permitted || left[1].permitted || left[0].inheritable || left[1].inheritable)
        return err_set(e, ERR_INTERNAL, "capabilities are left");
    return 0;
}
