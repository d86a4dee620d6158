// SPDX-License-Identifier: Apache-2.0
// The filter of a guest's system calls.
#include "sandbox-backend/nest/filter.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "sandbox-backend/base/mem.h"

#define FAMILY_MAX 64 // above all families of Linux; larger numbers are refused together
#define NEW_NAMESPACES                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
     CLONE_NEWNET)

static const int FORBIDDEN[] = {
    // mounts and namespaces
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(unshare), SCMP_SYS(setns),
    SCMP_SYS(open_tree), SCMP_SYS(move_mount), SCMP_SYS(fsopen), SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(mount_setattr), SCMP_SYS(open_by_handle_at),
    SCMP_SYS(quotactl), SCMP_SYS(swapon), SCMP_SYS(swapoff),
    // parts of the kernel that exploits have used
    SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(add_key),
    SCMP_SYS(request_key), SCMP_SYS(keyctl), SCMP_SYS(fanotify_init), SCMP_SYS(lookup_dcookie),
    SCMP_SYS(vmsplice), SCMP_SYS(modify_ldt),
    // the host
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(acct), SCMP_SYS(syslog),
    SCMP_SYS(settimeofday), SCMP_SYS(clock_settime), SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex),
    SCMP_SYS(iopl), SCMP_SYS(ioperm), SCMP_SYS(vhangup), SCMP_SYS(nfsservctl)};

// Missing, as on a kernel without them: their callers have another way. The flags of clone3 are in
// memory, where a filter cannot read them.
static const int UNKNOWN[] = {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter),
                              SCMP_SYS(io_uring_register), SCMP_SYS(clone3)};

static int refuse(scmp_filter_ctx ctx, const int *calls, size_t count, int error)
{
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)error), calls[i], 0);
    return failed;
}

static int refuse_namespaces(scmp_filter_ctx ctx)
{
    int failed = 0;
    for (int bit = 0; bit < 32 && !failed; bit++) {
        const struct scmp_arg_cmp has = SCMP_A0_64(SCMP_CMP_MASKED_EQ, 1u << bit, 1u << bit);
        if (NEW_NAMESPACES & 1u << bit)
            failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, has);
    }
    return failed;
}

// A network namespace does not confine every family: AF_VSOCK reaches the hypervisor and the other
// machines of the host. Other families load modules of the host's kernel.
static int refuse_families(scmp_filter_ctx ctx)
{
    static const int CALLS[] = {SCMP_SYS(socket), SCMP_SYS(socketpair)};
    int failed = 0;
    for (unsigned family = 0; family <= FAMILY_MAX && !failed; family++) {
        const struct scmp_arg_cmp is = family < FAMILY_MAX
                                           ? SCMP_A0_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, family)
                                           : SCMP_A0_64(SCMP_CMP_GE, family);
        if (family == AF_UNIX || family == AF_INET || family == AF_INET6 || family == AF_NETLINK)
            continue;
        for (size_t i = 0; i < ARRAY_LEN(CALLS) && !failed; i++)
            failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), CALLS[i], 1, is);
    }
    return failed;
}

// Return 0 and the filter, or a negative errno.
static int build(scmp_filter_ctx *out)
{
    // A program could put words into the terminal of another one with this command.
    const struct scmp_arg_cmp push = SCMP_A1_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, TIOCSTI);
    scmp_filter_ctx ctx = *out = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx)
        return -ENOMEM;
    int failed = refuse(ctx, FORBIDDEN, ARRAY_LEN(FORBIDDEN), EPERM);
    failed = failed ? failed : refuse(ctx, UNKNOWN, ARRAY_LEN(UNKNOWN), ENOSYS);
    failed = failed ? failed : refuse_namespaces(ctx);
    failed = failed ? failed : refuse_families(ctx);
    return failed ? failed : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, push);
}

int filter_write(int fd, struct err *e)
{
    scmp_filter_ctx ctx = NULL;
    int failed = build(&ctx);
    failed = failed ? failed : seccomp_export_bpf(ctx, fd);
    seccomp_release(ctx);
    return failed ? err_sys(e, -failed, "make a filter of system calls") : 0;
}

int filter_load(struct err *e)
{
    scmp_filter_ctx ctx = NULL;
    int failed = build(&ctx);
    failed = failed ? failed : seccomp_load(ctx);
    seccomp_release(ctx);
    return failed ? err_sys(e, -failed, "load a filter of system calls") : 0;
}
