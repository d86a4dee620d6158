// SPDX-License-Identifier: Apache-2.0
// Starting a program as a user, in a session of its own, with pipes or a terminal.
//
// The child shares our memory until it executes (CLONE_VM | CLONE_VFORK), so no page is copied: a
// fork of this process costs under emulation more than all the rest. The price is that the child
// must not use what glibc keeps for us: no allocation, no stdio, and the set*id calls bare, as
// glibc's would also act on our other threads. It runs on a stack of its own. Failures before the
// execve are handed to us through that same memory.
#include "sandbox-backend/envd/process_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"

#define CHILD_STACK_BYTES (64 * 1024)
#define OOM_SCORE_CHILD   "100" // the kernel ends commands before it ends envd
#define EXIT_NOT_FOUND    127
#define EXIT_NOT_RUNNABLE 126
#define SHELL             "/bin/sh"

// The child runs on a stack that the sanitizers do not know.
#define IN_CHILD __attribute__((no_sanitize("address", "undefined"), noinline))

enum stage { STAGE_NONE, STAGE_SESSION, STAGE_STREAMS, STAGE_USER, STAGE_DIRECTORY };

struct child {
    const struct spawn *s;
    int in, out, err;  // the child's ends
    sigset_t mask;     // to be put back
    bool change_user;  // false: it is ours already
    enum stage failed; // written by the child
    int failed_errno;
};

// ---- in the child, until `execve`

IN_CHILD static int fail(struct child *c, enum stage stage)
{
    c->failed_errno = errno;
    c->failed = stage;
    return EXIT_NOT_FOUND;
}

// Some are caught, and would run in shared memory; some are ignored, by us or by what started us
// (nohup, a shell's background), and that would be inherited.
IN_CHILD static void reset_signals(const struct child *c)
{
    static const int OURS[] = {SIGCHLD, SIGTERM, SIGINT,  SIGHUP, SIGPIPE,
                               SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};
    const struct sigaction normal = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < ARRAY_LEN(OURS); i++)
        sigaction(OURS[i], &normal, NULL);
    sigprocmask(SIG_SETMASK, &c->mask, NULL);
}

IN_CHILD static bool set_user(const struct user *u)
{
    return syscall(SYS_setgroups, (size_t)u->group_count, u->groups) == 0 &&
           syscall(SYS_setresgid, u->gid, u->gid, u->gid) == 0 &&
           syscall(SYS_setresuid, u->uid, u->uid, u->uid) == 0;
}

IN_CHILD static int say_not_started(const struct spawn *s, int sys)
{
    const char *why = sys == ENOENT || sys == ENOTDIR ? "not found" : strerrordesc_np(sys);
    struct iovec parts[] = {
        {.iov_base = (void *)(uintptr_t) "envd: ", .iov_len = 6},
        {.iov_base = (void *)(uintptr_t)s->cmd, .iov_len = strlen(s->cmd)},
        {.iov_base = (void *)(uintptr_t) ": ", .iov_len = 2},
        {.iov_base = (void *)(uintptr_t)why, .iov_len = why ? strlen(why) : 0},
        {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1},
    };
    ssize_t n = writev(STDERR_FILENO, parts, ARRAY_LEN(parts));
    (void)n;
    return sys == ENOENT || sys == ENOTDIR ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
}

// As a shell does: the first candidate that is there decides, but one that may not be executed is
// passed over and remembered; a text file without "#!" is a script.
IN_CHILD static int execute(const struct spawn *s)
{
    int sys = ENOENT;
    for (char *const *path = s->candidates; *path; path++) {
        execve(*path, s->argv, s->envp);
        if (errno == ENOEXEC) {
            s->argv[-1] = (char *)(uintptr_t)SHELL;
            s->argv[0] = *path;
            execve(SHELL, s->argv - 1, s->envp);
        }
        if (errno != ENOENT && errno != ENOTDIR)
            sys = errno;
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            break;
    }
    return say_not_started(s, sys);
}

IN_CHILD static int run_child(void *arg)
{
    struct child *c = arg;
    if (setsid() < 0)
        return fail(c, STAGE_SESSION);
    if (dup2(c->in, STDIN_FILENO) < 0 || dup2(c->out, STDOUT_FILENO) < 0 ||
        dup2(c->err, STDERR_FILENO) < 0)
        return fail(c, STAGE_STREAMS);
    if (c->s->want_pty && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
        return fail(c, STAGE_STREAMS);
    setrlimit(RLIMIT_NOFILE, &c->s->nofile);
    if (c->change_user && !set_user(c->s->user))
        return fail(c, STAGE_USER);
    if (chdir(c->s->cwd) < 0)
        return fail(c, STAGE_DIRECTORY);
    reset_signals(c);
    return execute(c->s);
}

// ---- making the child

static void *child_stack(void)
{
    static void *stack;
    if (!stack) {
        stack = mmap(NULL, CHILD_STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (stack == MAP_FAILED)
            abort();
    }
    return stack;
}

#if defined(__x86_64__)
// glibc has no clone3: the child must call a function on its new stack before anything is returned.
static pid_t clone_into_cgroup(struct child *c, int cgroup_fd)
{
    struct clone_args args = {
        .flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
        .exit_signal = SIGCHLD,
        .stack = (uintptr_t)child_stack(),
        .stack_size = CHILD_STACK_BYTES,
        .cgroup = (uint64_t)cgroup_fd,
    };
    long rc = SYS_clone3;
    register int (*run)(void *) __asm__("r12") = run_child;
    register void *arg __asm__("r13") = c;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %[arg], %%rdi\n\t"
                     "call *%[run]\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "+a"(rc)
                     : "D"(&args),
                       "S"(sizeof args), [run] "r"(run), [arg] "r"(arg), [exit] "i"(SYS_exit_group)
                     : "rcx", "r11", "memory", "cc");
    if (rc < 0) {
        errno = (int)-rc;
        return -1;
    }
    return (pid_t)rc;
}
#else
static pid_t clone_into_cgroup(struct child *c, int cgroup_fd)
{
    (void)c;
    (void)cgroup_fd;
    errno = ENOSYS;
    return -1;
}
#endif

// A child inherits ours, so ours is its own for as long as it takes to make it: its own file would
// have to be looked up in /proc, which costs more than all else that is done here.
static void set_oom_score(const struct spawn *s, const char *score)
{
    ssize_t n = s->oom_fd < 0 ? 0 : pwrite(s->oom_fd, score, strlen(score), 0);
    (void)n; // without it the kernel prefers nobody
}

// Returns once the child has executed or ended. All signals are blocked meanwhile, so that none of
// our handlers runs in it.
static pid_t make_child(struct child *c, int cgroup_fd, bool *in_cgroup)
{
    sigset_t all;
    sigset_t ours;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &ours);
    sigemptyset(&c->mask);
    pid_t pid = cgroup_fd >= 0 ? clone_into_cgroup(c, cgroup_fd) : -1;
    *in_cgroup = pid > 0;
    if (cgroup_fd < 0 || (pid < 0 && errno != EAGAIN && errno != ENOMEM))
        pid = clone(run_child, (char *)child_stack() + CHILD_STACK_BYTES,
                    CLONE_VM | CLONE_VFORK | SIGCHLD, c);
    int sys = errno;
    sigprocmask(SIG_SETMASK, &ours, NULL);
    errno = sys;
    return pid;
}

// ---- the parent's side

struct pipes {
    int in[2], out[2], err[2];
    int pty[2]; // ours, theirs
};

static void close_pair(int pair[2])
{
    mem_close_fd(&pair[0]);
    mem_close_fd(&pair[1]);
}

// A program opens its own streams by their names too (/dev/stdin, /dev/stdout), which only the
// owner of a pipe may do. Both ends are one file.
static void give_pipe(const int pair[2], const struct user *u)
{
    if (pair[0] < 0 || u->uid == geteuid())
        return;
    int rc = fchown(pair[0], u->uid, u->gid);
    (void)rc; // refused, the descriptors themselves still work
}

static int open_pipes(const struct spawn *s, struct pipes *p, struct err *e)
{
    if ((s->want_stdin && pipe2(p->in, O_CLOEXEC) < 0) || pipe2(p->out, O_CLOEXEC) < 0 ||
        pipe2(p->err, O_CLOEXEC) < 0)
        return err_sys(e, errno, "make pipes");
    give_pipe(p->in, s->user);
    give_pipe(p->out, s->user);
    give_pipe(p->err, s->user);
    return 0;
}

// The second descriptor for input has readiness of its own in the loop.
static int open_terminal(const struct spawn *s, struct pipes *p, struct err *e)
{
    if (pty_open(s->size, s->user->uid, &p->pty[0], &p->pty[1], e) < 0)
        return -1;
    p->in[1] = fcntl(p->pty[0], F_DUPFD_CLOEXEC, 0);
    return p->in[1] < 0 ? err_sys(e, errno, "copy a descriptor") : 0;
}

static int report(const struct spawn *s, const struct child *c, struct err *e)
{
    static const char *const DOING[] = {[STAGE_SESSION] = "make a session",
                                        [STAGE_STREAMS] = "connect the streams",
                                        [STAGE_USER] = "become the user",
                                        [STAGE_DIRECTORY] = "enter the directory"};
    const char *why = strerrordesc_np(c->failed_errno);
    if (c->failed == STAGE_DIRECTORY)
        return err_set(e, ERR_INVALID, "error starting process '%s': chdir %s: %s", s->cmd, s->cwd,
                       why);
    return err_set(e, ERR_INTERNAL, "error starting process '%s': %s: %s", s->cmd, DOING[c->failed],
                   why);
}

static int start(struct spawn *s, struct pipes *p, struct err *e)
{
    struct child c = {
        .s = s,
        .in = s->want_pty     ? p->pty[1]
              : s->want_stdin ? p->in[0]
                              : s->null_fd,
        .out = s->want_pty ? p->pty[1] : p->out[1],
        .err = s->want_pty ? p->pty[1] : p->err[1],
        .change_user = s->user->uid != geteuid() || geteuid() == 0,
    };
    set_oom_score(s, OOM_SCORE_CHILD);
    s->pid = make_child(&c, s->cgroup_fd, &s->in_cgroup);
    int sys = errno;
    set_oom_score(s, s->oom_own);
    if (s->pid < 0)
        return err_set(e, sys == EAGAIN || sys == ENOMEM ? ERR_LIMIT : ERR_INTERNAL,
                       "error starting process '%s': %s", s->cmd, strerror(sys));
    if (c.failed == STAGE_NONE)
        return 0;
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return report(s, &c, e);
}

int spawn_start(struct spawn *s, struct err *e)
{
    struct pipes p = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    int rc = s->want_pty ? open_terminal(s, &p, e) : open_pipes(s, &p, e);
    if (rc == 0)
        rc = start(s, &p, e);
    s->in = s->out = s->err = s->pty = -1;
    if (rc == 0) {
        s->in = steal_fd(&p.in[1]);
        s->out = steal_fd(&p.out[0]);
        s->err = steal_fd(&p.err[0]);
        s->pty = steal_fd(&p.pty[0]);
    }
    close_pair(p.in);
    close_pair(p.out);
    close_pair(p.err);
    close_pair(p.pty);
    return rc;
}
