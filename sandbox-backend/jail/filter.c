// SPDX-License-Identifier: Apache-2.0
// Which system calls the process may make.
//
// QEMU has a filter of its own (-sandbox), which it sets up when it has parsed its options; ours
// stands from its first instruction and takes away whole parts of the kernel that no VMM needs.
// What it calls for its work differs with its version, so this is a list of what is forbidden. A
// network process is our own: a list of what is allowed, in filter_network.c.
#include "sandbox-backend/jail/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/socket.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/jail/filter_internal.h"

#define NEW_NAMESPACES                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
     CLONE_NEWNET)

// Of kernels that Debian's headers do not know yet; the numbers are those of all processors.
#define SYS_FCHMODAT2      452
#define SYS_SETXATTRAT     463
#define SYS_REMOVEXATTRAT  466
#define SYS_OPEN_TREE_ATTR 467
#define SYS_FILE_SETATTR   469
#define F_SETDELEG         (F_SETLEASE + 16) // a lease by another name, Linux 6.19

static const int FORBIDDEN[] = {
    // mounts, roots, namespaces
    SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot), SCMP_SYS(unshare),
    SCMP_SYS(setns), SCMP_SYS(open_tree), SCMP_SYS(move_mount), SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig), SCMP_SYS(fsmount), SCMP_SYS(fspick), SCMP_SYS(mount_setattr),
    SYS_OPEN_TREE_ATTR, SCMP_SYS(name_to_handle_at), SCMP_SYS(open_by_handle_at),
    SCMP_SYS(quotactl), SCMP_SYS(quotactl_fd), SCMP_SYS(swapon), SCMP_SYS(swapoff),
    // other processes
    SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(kcmp), SCMP_SYS(pidfd_open),
    SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal), SCMP_SYS(process_madvise),
    SCMP_SYS(move_pages), SCMP_SYS(migrate_pages),
    // what a file is beside its contents: a template's, which it may only read, is its user's own
    // where the daemon is not root
    SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SYS_FCHMODAT2, SCMP_SYS(chown),
    SCMP_SYS(lchown), SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(utime), SCMP_SYS(utimes),
    SCMP_SYS(futimesat), SCMP_SYS(utimensat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr),
    SCMP_SYS(fsetxattr), SYS_SETXATTRAT, SCMP_SYS(removexattr), SCMP_SYS(lremovexattr),
    SCMP_SYS(fremovexattr), SYS_REMOVEXATTRAT, SYS_FILE_SETATTR,
    // parts of the kernel that have been ways in
    SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(add_key),
    SCMP_SYS(request_key), SCMP_SYS(keyctl), SCMP_SYS(fanotify_init), SCMP_SYS(lookup_dcookie),
    SCMP_SYS(vmsplice), SCMP_SYS(modify_ldt), SCMP_SYS(personality), SCMP_SYS(memfd_secret),
    // the host
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(acct), SCMP_SYS(syslog),
    SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex), SCMP_SYS(iopl), SCMP_SYS(ioperm),
    SCMP_SYS(vhangup), SCMP_SYS(nfsservctl), SCMP_SYS(ustat), SCMP_SYS(sysfs), SCMP_SYS(uselib)};

// Of a file, the same by two calls that are also used for much else. Who opens a file that has a
// lease waits for its holder, by default 45 s, and the daemon opens what it has given out.
static const struct {
    int call;
    unsigned command; // its second argument
} FORBIDDEN_COMMANDS[] = {
    {SCMP_SYS(fcntl), F_SETLEASE},        {SCMP_SYS(fcntl), F_SETDELEG},
    {SCMP_SYS(ioctl), FS_IOC_SETFLAGS},   {SCMP_SYS(ioctl), FS_IOC_FSSETXATTR},
    {SCMP_SYS(ioctl), FS_IOC_SETVERSION}, {SCMP_SYS(ioctl), FS_IOC_ENABLE_VERITY},
};

// As on a kernel without them: their callers have another way. Of what io_setup takes there is so
// much for the whole host (aio(7), aio-max-nr).
static const int UNKNOWN[] = {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter),
                              SCMP_SYS(io_uring_register), SCMP_SYS(io_setup), SCMP_SYS(clone3)};

int filter__refuse(scmp_filter_ctx ctx, const int *calls, size_t count, int error)
{
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)error), calls[i], 0);
    return failed;
}

int filter__unknown(scmp_filter_ctx ctx)
{
    return filter__refuse(ctx, UNKNOWN, ARRAY_LEN(UNKNOWN), ENOSYS);
}

// The kernel looks at 32 bits of a command.
static int forbid_commands(scmp_filter_ctx ctx)
{
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(FORBIDDEN_COMMANDS) && !failed; i++)
        failed = seccomp_rule_add(
            ctx, SCMP_ACT_ERRNO(EPERM), FORBIDDEN_COMMANDS[i].call, 1,
            SCMP_A1_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, FORBIDDEN_COMMANDS[i].command));
    return failed;
}

// The only sockets it has are those that it was given. Of AF_VSOCK, which no namespace holds, one
// would reach the machine that this host may be a guest of. A pair of another family reaches
// nobody, but the kernel would load that family's module for it.
static int forbid_sockets(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp not_unix = SCMP_A0_64(SCMP_CMP_NE, AF_UNIX);
    int failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 1, not_unix);
    return failed
               ? failed
               : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socketpair), 1, not_unix);
}

// It has threads, and starts no process.
static int forbid_processes(scmp_filter_ctx ctx)
{
    static const int CALLS[] = {SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace)};
    int failed = filter__refuse(ctx, CALLS, ARRAY_LEN(CALLS), EPERM);
    return failed ? failed
                  : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                     SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
}

static int vmm(scmp_filter_ctx ctx, bool instrumented)
{
    int failed = filter__refuse(ctx, FORBIDDEN, ARRAY_LEN(FORBIDDEN), EPERM);
    failed = failed ? failed : forbid_commands(ctx);
    failed = failed ? failed : filter__unknown(ctx);
    for (int bit = 0; bit < 32 && !failed; bit++) {
        const struct scmp_arg_cmp has = SCMP_A0_64(SCMP_CMP_MASKED_EQ, 1u << bit, 1u << bit);
        if (NEW_NAMESPACES & 1u << bit)
            failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, has);
    }
    // A network process with sanitizers has sockets, and a process of its own looks for its leaks.
    if (!failed && !instrumented)
        failed = forbid_sockets(ctx);
    return failed || instrumented ? failed : forbid_processes(ctx);
}

int filter_load(enum jail_kind kind, bool instrumented, struct err *e)
{
    bool allows = kind == JAIL_NETWORK && !instrumented;
    scmp_filter_ctx ctx = seccomp_init(allows ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);
    if (!ctx)
        return err_set(e, ERR_INTERNAL, "make a filter of system calls");
    // no_new_privs is set; a thread of another filter there is none.
    int failed = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
    failed = failed ? failed : seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    failed = failed ? failed : allows ? filter__network(ctx) : vmm(ctx, instrumented);
    failed = failed ? failed : seccomp_load(ctx);
    seccomp_release(ctx);
    return failed ? err_sys(e, -failed, "load the filter of system calls") : 0;
}
