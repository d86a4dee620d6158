// SPDX-License-Identifier: Apache-2.0
// What cubby-netd and cubby-egress may call: sockets of the families they use, files that are open
// or in their root, memory, time. The lists are wider than what they call today by what the C
// library may call in their place on another version of Debian.
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/jail/filter_internal.h"

#define SOCKET_TYPE_MASK 0xf // without SOCK_CLOEXEC and SOCK_NONBLOCK (socket(2))

static const int ALLOWED[] = {
    // sockets, but for making them
    SCMP_SYS(accept), SCMP_SYS(accept4), SCMP_SYS(bind), SCMP_SYS(connect), SCMP_SYS(getpeername),
    SCMP_SYS(getsockname), SCMP_SYS(getsockopt), SCMP_SYS(listen), SCMP_SYS(recvfrom),
    SCMP_SYS(recvmmsg), SCMP_SYS(recvmsg), SCMP_SYS(sendmmsg), SCMP_SYS(sendmsg), SCMP_SYS(sendto),
    SCMP_SYS(setsockopt), SCMP_SYS(shutdown),
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
    // time, chance, itself
    SCMP_SYS(clock_getres), SCMP_SYS(clock_gettime), SCMP_SYS(clock_nanosleep), SCMP_SYS(getrandom),
    SCMP_SYS(gettimeofday), SCMP_SYS(nanosleep), SCMP_SYS(time), SCMP_SYS(times), SCMP_SYS(alarm),
    SCMP_SYS(setitimer), SCMP_SYS(getegid), SCMP_SYS(geteuid), SCMP_SYS(getgid), SCMP_SYS(getpid),
    SCMP_SYS(getppid), SCMP_SYS(getpriority), SCMP_SYS(getresgid), SCMP_SYS(getresuid),
    SCMP_SYS(getrlimit), SCMP_SYS(getrusage), SCMP_SYS(gettid), SCMP_SYS(getuid),
    SCMP_SYS(prlimit64), SCMP_SYS(setrlimit), SCMP_SYS(sysinfo), SCMP_SYS(uname), SCMP_SYS(umask),
    SCMP_SYS(capget),
    // threads (libuv's, for look-ups of files) and signals to itself
    SCMP_SYS(exit), SCMP_SYS(exit_group), SCMP_SYS(futex), SCMP_SYS(futex_waitv),
    SCMP_SYS(get_robust_list), SCMP_SYS(kill), SCMP_SYS(membarrier), SCMP_SYS(pause),
    SCMP_SYS(restart_syscall), SCMP_SYS(rseq), SCMP_SYS(rt_sigaction), SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigprocmask), SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(rt_sigtimedwait), SCMP_SYS(sched_getaffinity), SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler), SCMP_SYS(sched_yield), SCMP_SYS(set_robust_list),
    SCMP_SYS(set_tid_address), SCMP_SYS(sigaltstack), SCMP_SYS(tgkill), SCMP_SYS(arch_prctl),
    // the program's start; it finds nothing else to execute in its root
    SCMP_SYS(execve)};

static const int FAMILIES[] = {AF_UNIX, AF_INET, AF_INET6};
static const int TYPES[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

// What prctl(2) is called for by the program itself and by the C library.
static const int PRCTLS[] = {PR_SET_NO_NEW_PRIVS, PR_SET_NAME,     PR_GET_NAME, PR_SET_PDEATHSIG,
                             PR_SET_DUMPABLE,     PR_GET_DUMPABLE, PR_SET_VMA,  PR_SET_SECCOMP};

// What fcntl(2) is called for. A lease on a file of its user's would have the daemon wait.
static const int FCNTLS[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL};

// And of ioctl(2) what is old: the requests of sockets and terminals are numbers of 16 bits; those
// that change a file say above that how large their argument is.
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

// No raw and no packet sockets, and of netlink only the one that knows addresses and routes.
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

// A thread, never a process of its own.
static int allow_threads(scmp_filter_ctx ctx)
{
    return seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0_64(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

int filter__network(scmp_filter_ctx ctx)
{
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(ALLOWED) && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, ALLOWED[i], 0);
    for (size_t i = 0; i < ARRAY_LEN(PRCTLS) && !failed; i++)
        failed = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
                                  SCMP_A0_64(SCMP_CMP_EQ, (unsigned)PRCTLS[i]));
    failed = failed ? failed : allow_commands(ctx);
    failed = failed ? failed : allow_sockets(ctx);
    failed = failed ? failed : allow_threads(ctx);
    return failed ? failed : filter__unknown(ctx);
}
