// SPDX-License-Identifier: Apache-2.0
// The seccomp filter, which limits the system calls that the process may make.
//
// QEMU sets up a filter of its own (-sandbox) after it has parsed its options. Ours is in force
// from QEMU's first instruction, and forbids whole parts of the kernel that no VMM needs. The calls
// that QEMU makes differ with its version, so its list names what is forbidden. The network
// processes are our own programs, so their list names what is allowed.
//
// These functions return 0 or a negative errno, as libseccomp does.
#include "sandbox-backend/jail/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "sandbox-backend/base/mem.h"

// ---- a VMM

#define NEW_NAMESPACES                                                                            \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
     CLONE_NEWNET)

// System calls that Debian's headers do not have yet; the numbers hold for all processors.
#define SYS_FCHMODAT2      452
#define SYS_SETXATTRAT     463
#define SYS_REMOVEXATTRAT  466
#define SYS_OPEN_TREE_ATTR 467
#define SYS_FILE_SETATTR   469
#define F_SETDELEG         (F_SETLEASE + 16) // a kind of lease, Linux 6.19

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
    // metadata of files: a template's files, which the process may only read, belong to its user
    // when the daemon is not root
    SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SYS_FCHMODAT2, SCMP_SYS(chown),
    SCMP_SYS(lchown), SCMP_SYS(fchown), SCMP_SYS(fchownat), SCMP_SYS(utime), SCMP_SYS(utimes),
    SCMP_SYS(futimesat), SCMP_SYS(utimensat), SCMP_SYS(setxattr), SCMP_SYS(lsetxattr),
    SCMP_SYS(fsetxattr), SYS_SETXATTRAT, SCMP_SYS(removexattr), SCMP_SYS(lremovexattr),
    SCMP_SYS(fremovexattr), SYS_REMOVEXATTRAT, SYS_FILE_SETATTR,
    // parts of the kernel that exploits have used
    SCMP_SYS(bpf), SCMP_SYS(perf_event_open), SCMP_SYS(userfaultfd), SCMP_SYS(add_key),
    SCMP_SYS(request_key), SCMP_SYS(keyctl), SCMP_SYS(fanotify_init), SCMP_SYS(lookup_dcookie),
    SCMP_SYS(vmsplice), SCMP_SYS(modify_ldt), SCMP_SYS(personality), SCMP_SYS(memfd_secret),
    // the host
    SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module), SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load), SCMP_SYS(reboot), SCMP_SYS(acct), SCMP_SYS(syslog),
    SCMP_SYS(sethostname), SCMP_SYS(setdomainname), SCMP_SYS(settimeofday), SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime), SCMP_SYS(adjtimex), SCMP_SYS(iopl), SCMP_SYS(ioperm),
    SCMP_SYS(vhangup), SCMP_SYS(nfsservctl), SCMP_SYS(ustat), SCMP_SYS(sysfs), SCMP_SYS(uselib)};

// Two further calls for the metadata of files, which have many other uses. Opening a file that has
// a lease waits for its holder, 45 s by default, and the daemon opens files that it has given out.
static const struct {
    int call;
    unsigned command; // its second argument
} FORBIDDEN_COMMANDS[] = {
    {SCMP_SYS(fcntl), F_SETLEASE},        {SCMP_SYS(fcntl), F_SETDELEG},
    {SCMP_SYS(ioctl), FS_IOC_SETFLAGS},   {SCMP_SYS(ioctl), FS_IOC_FSSETXATTR},
    {SCMP_SYS(ioctl), FS_IOC_SETVERSION}, {SCMP_SYS(ioctl), FS_IOC_ENABLE_VERITY},
};

// Missing, as on a kernel without them: their callers have another way. io_setup draws on a supply
// for the whole host (aio(7), aio-max-nr).
static const int UNKNOWN[] = {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter),
                              SCMP_SYS(io_uring_register), SCMP_SYS(io_setup), SCMP_SYS(clone3)};

static int refuse_calls(scmp_filter_ctx ctx, const int *calls, size_t count, int error)
{
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((unsigned)error), calls[i], 0);
    return failed;
}

static int hide_calls(scmp_filter_ctx ctx)
{
    return refuse_calls(ctx, UNKNOWN, ARRAY_LEN(UNKNOWN), ENOSYS);
}

// The kernel reads 32 bits of a command.
static int forbid_commands(scmp_filter_ctx ctx)
{
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(FORBIDDEN_COMMANDS) && !failed; i++)
        failed = seccomp_rule_add(
            ctx, SCMP_ACT_ERRNO(EPERM), FORBIDDEN_COMMANDS[i].call, 1,
            SCMP_A1_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, FORBIDDEN_COMMANDS[i].command));
    return failed;
}

// The process has only the sockets that it was given. An AF_VSOCK socket, which no namespace
// confines, would reach the hypervisor if this host is itself a guest. A pair of another family
// reaches nothing, but the kernel would load that family's module for it.
static int forbid_sockets(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp not_unix = SCMP_A0_64(SCMP_CMP_NE, AF_UNIX);
    int failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 1, not_unix);
    return failed
               ? failed
               : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socketpair), 1, not_unix);
}

// Allow threads, but no new process.
static int forbid_processes(scmp_filter_ctx ctx)
{
    static const int CALLS[] = {SCMP_SYS(fork), SCMP_SYS(vfork), SCMP_SYS(ptrace)};
    int failed = refuse_calls(ctx, CALLS, ARRAY_LEN(CALLS), EPERM);
    return failed ? failed
                  : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                                     SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
}

static int build_vmm(scmp_filter_ctx ctx, bool instrumented)
{
    int failed = refuse_calls(ctx, FORBIDDEN, ARRAY_LEN(FORBIDDEN), EPERM);
    failed = failed ? failed : forbid_commands(ctx);
    failed = failed ? failed : hide_calls(ctx);
    for (int bit = 0; bit < 32 && !failed; bit++) {
        const struct scmp_arg_cmp has = SCMP_A0_64(SCMP_CMP_MASKED_EQ, 1u << bit, 1u << bit);
        if (NEW_NAMESPACES & 1u << bit)
            failed = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, has);
    }
    // With sanitizers a network process keeps its sockets, and a process of its own looks for
    // leaks.
    if (!failed && !instrumented)
        failed = forbid_sockets(ctx);
    return failed || instrumented ? failed : forbid_processes(ctx);
}

// ---- a network process: cubby-netd, cubby-egress
//
// Sockets of the families that they use, files that are open or in their root, memory, time. The
// lists are wider than today's use, because another version of Debian has another C library.

#define SOCKET_TYPE_MASK 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK (socket(2))

// Sockets, except making them.
static const int ALLOWED_SOCKETS[] = {
    SCMP_SYS(accept),      SCMP_SYS(accept4),     SCMP_SYS(bind),       SCMP_SYS(connect),
    SCMP_SYS(getpeername), SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(listen),
    SCMP_SYS(recvfrom),    SCMP_SYS(recvmmsg),    SCMP_SYS(recvmsg),    SCMP_SYS(sendmmsg),
    SCMP_SYS(sendmsg),     SCMP_SYS(sendto),      SCMP_SYS(setsockopt), SCMP_SYS(shutdown)};

static const int ALLOWED[] = {
    // descriptors
    SCMP_SYS(close), SCMP_SYS(close_range), SCMP_SYS(dup), SCMP_SYS(dup2), SCMP_SYS(dup3),
    SCMP_SYS(lseek), SCMP_SYS(pipe), SCMP_SYS(pipe2), SCMP_SYS(pread64), SCMP_SYS(preadv),
    SCMP_SYS(pwrite64), SCMP_SYS(pwritev), SCMP_SYS(read), SCMP_SYS(readv), SCMP_SYS(sendfile),
    SCMP_SYS(splice), SCMP_SYS(write), SCMP_SYS(writev), SCMP_SYS(ftruncate), SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    // waiting
    SCMP_SYS(epoll_create), SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait), SCMP_SYS(epoll_pwait2), SCMP_SYS(eventfd), SCMP_SYS(eventfd2),
    SCMP_SYS(poll), SCMP_SYS(ppoll), SCMP_SYS(select), SCMP_SYS(pselect6), SCMP_SYS(signalfd),
    SCMP_SYS(signalfd4), SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime),
    SCMP_SYS(timerfd_gettime), SCMP_SYS(inotify_init1), SCMP_SYS(inotify_add_watch),
    SCMP_SYS(inotify_rm_watch),
    // files of its root
    SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(fstat), SCMP_SYS(fstatfs),
    SCMP_SYS(getcwd), SCMP_SYS(getdents64), SCMP_SYS(lstat), SCMP_SYS(newfstatat), SCMP_SYS(open),
    SCMP_SYS(openat), SCMP_SYS(readlink), SCMP_SYS(readlinkat), SCMP_SYS(stat), SCMP_SYS(statfs),
    SCMP_SYS(statx),
    // memory
    SCMP_SYS(brk), SCMP_SYS(madvise), SCMP_SYS(memfd_create), SCMP_SYS(mlock), SCMP_SYS(mlock2),
    SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(mremap), SCMP_SYS(msync), SCMP_SYS(munlock),
    SCMP_SYS(munmap),
    // time, random numbers, the process itself
    SCMP_SYS(clock_getres), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom),
    SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep), SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(alarm),
    SCMP_SYS(setitimer), SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getpid),
    SCMP_SYS(getppid), SCMP_SYS(getpriority), SCMP_SYS(getresgid), SCMP_SYS(getresuid),
    SCMP_SYS(getrlimit), SCMP_SYS(getrusage), SCMP_SYS(gettid), SCMP_SYS(getuid),
    SCMP_SYS(prlimit64), SCMP_SYS(setrlimit), SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(umask),
    SCMP_SYS(capget),
    // threads (libuv's, for file operations) and signals to itself
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex), SCMP_SYS(futex_waitv),
    SCMP_SYS(get_robust_list), SCMP_SYS(kill), SCMP_SYS(membarrier), SCMP_SYS(pause),
    SCMP_SYS(restart_syscall), SCMP_SYS(rseq), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(rt_sigtimedwait), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_yield), SCMP_SYS(set_robust_list),
    SCMP_SYS(set_tid_address), SCMP_SYS(sigaltstack), SCMP_SYS(tgkill), SCMP_SYS(arch_prctl),
    // the program's start; its root holds nothing else to execute
    SCMP_SYS(execve)};

static const int FAMILIES[] = {AF_UNIX, AF_INET, AF_INET6};
static const int TYPES[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

// The uses of prctl(2) by the program and the C library.
static const int PRCTLS[] = {PR_SET_NO_NEW_PRIVS, PR_SET_NAME,     PR_GET_NAME, PR_SET_PDEATHSIG,
                             PR_SET_DUMPABLE,     PR_GET_DUMPABLE, PR_SET_VMA,  PR_SET_SECCOMP};

// The uses of fcntl(2). A lease on a file of the process's user would make the daemon wait.
static const int FCNTLS[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL};

// Old requests of ioctl(2): those of sockets and terminals are 16-bit numbers. Requests that change
// a file have the size of their argument above that.
#define NEWER_IOCTLS 0xffff0000

static int allow_commands(scmp_filter_ctx ctx)
{
    int failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                  SCMP_A1_64(SCMP_CMP_MASKED_EQ, NEWER_IOCTLS, 0));
    for (size_t i = 0; i < ARRAY_LEN(FCNTLS) && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                                  SCMP_A1_64(SCMP_CMP_MASKED_EQ, UINT32_MAX, (unsigned)FCNTLS[i]));
    return failed;
}

// Allow no raw and no packet sockets, and of netlink only the family with addresses and routes.
static int allow_sockets(scmp_filter_ctx ctx)
{
    int failed = 0;
    for (size_t f = 0; f < ARRAY_LEN(FAMILIES); f++)
        for (size_t t = 0; t < ARRAY_LEN(TYPES) && !failed; t++)
            failed = seccomp_rule_add(
                ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                SCMP_A0_64(SCMP_CMP_EQ, (unsigned)FAMILIES[f]),
                SCMP_A1_64(SCMP_CMP_MASKED_EQ, SOCKET_TYPE_MASK, (unsigned)TYPES[t]));
    if (!failed)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                                  SCMP_A0_64(SCMP_CMP_EQ, AF_NETLINK),
                                  SCMP_A2_64(SCMP_CMP_EQ, NETLINK_ROUTE));
    if (!failed)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                                  SCMP_A0_64(SCMP_CMP_EQ, AF_UNIX));
    return failed;
}

// Allow threads, never a new process.
static int allow_threads(scmp_filter_ctx ctx)
{
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

static int allow_calls(scmp_filter_ctx ctx, const int *calls, size_t count)
{
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, calls[i], 0);
    return failed;
}

// Allow what each process of ours does that is not a VMM.
static int allow_common(scmp_filter_ctx ctx)
{
    int failed = allow_calls(ctx, ALLOWED, ARRAY_LEN(ALLOWED));
    for (size_t i = 0; i < ARRAY_LEN(PRCTLS) && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                                  SCMP_A0_64(SCMP_CMP_EQ, (unsigned)PRCTLS[i]));
    return failed ? failed : allow_commands(ctx);
}

static int build_network(scmp_filter_ctx ctx)
{
    int failed = allow_common(ctx);
    failed = failed ? failed : allow_calls(ctx, ALLOWED_SOCKETS, ARRAY_LEN(ALLOWED_SOCKETS));
    failed = failed ? failed : allow_sockets(ctx);
    failed = failed ? failed : allow_threads(ctx);
    return failed ? failed : hide_calls(ctx);
}

// ---- a process that serves a directory: cubby-mountd. It has one connection already, and makes
// neither sockets nor threads, devices nor owners.

static const int ALLOWED_FILES[] = {SCMP_SYS(openat2),   SCMP_SYS(mkdirat),   SCMP_SYS(unlinkat),
                                    SCMP_SYS(renameat2), SCMP_SYS(renameat),  SCMP_SYS(linkat),
                                    SCMP_SYS(symlinkat), SCMP_SYS(fchmod),    SYS_FCHMODAT2,
                                    SCMP_SYS(utimensat), SCMP_SYS(fallocate), SCMP_SYS(flock)};

static int build_files(scmp_filter_ctx ctx)
{
    int failed = allow_common(ctx);
    failed = failed ? failed : allow_calls(ctx, ALLOWED_FILES, ARRAY_LEN(ALLOWED_FILES));
    return failed ? failed : hide_calls(ctx);
}

// ---- loading

int seccomp_install(enum jail_kind kind, bool instrumented, struct err *e)
{
    bool allows = kind != JAIL_VMM && !instrumented;
    scmp_filter_ctx ctx = seccomp_init(allows ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW);
    if (!ctx)
        return err_set(e, ERR_INTERNAL, "libseccomp has no memory for the filter of system calls");
    // no_new_privs is already set, and no other thread has another filter
    int failed = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0);
    failed = failed ? failed : seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    failed = failed                         ? failed
             : kind == JAIL_FILES && allows ? build_files(ctx)
             : allows                       ? build_network(ctx)
                                            : build_vmm(ctx, instrumented);
    failed = failed ? failed : seccomp_load(ctx);
    seccomp_release(ctx);
    return failed ? err_sys(e, -failed, "load the filter of system calls into the kernel") : 0;
}
