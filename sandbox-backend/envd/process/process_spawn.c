// SPDX-License-Identifier: Apache-2.0
// Start a program as a user, in a process session of its own, with pipes or a terminal.
//
// The child (base/child.h) reports a failure before its execve through the memory that both share.
#include "sandbox-backend/envd/process/process_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/child.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/process/process_internal.h"

// ---- a pseudo terminal

#define MODE 0620 // as login(1) leaves a terminal

int pty_resize(int ours, struct pty_size size, struct err *e)
{
    const struct winsize w = {.ws_col = size.cols, .ws_row = size.rows};
    return ioctl(ours, TIOCSWINSZ, &w) < 0 ? err_sys(e, errno, "set the terminal's size") : 0;
}

// Open the other end through the descriptor: its name may lead to another devpts.
static int open_peer(int ours)
{
    int unlock = 0;
    if (ioctl(ours, TIOCSPTLCK, &unlock) < 0)
        return -1;
    return ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
}

// Open both ends, close-on-exec; it controls no session yet. Make `owner` its file owner, so that
// programs can open it again; a refusal by the kernel is ignored.
static int pty_open(struct pty_size size, uid_t owner, int *ours, int *theirs, struct err *e)
{
    int master auto_close = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    int slave auto_close = master < 0 ? -1 : open_peer(master);
    if (slave < 0)
        return err_sys(e, errno, "create a pseudo terminal");
    if (fchown(slave, owner, (gid_t)-1) == 0)
        fchmod(slave, MODE);
    if (pty_resize(master, size, e) < 0)
        return -1;
    *ours = steal_fd(&master);
    *theirs = steal_fd(&slave);
    return 0;
}

// ---- a child

#define OOM_SCORE_CHILD   "100" // the kernel ends commands before it ends envd
#define EXIT_NOT_FOUND    127
#define EXIT_NOT_RUNNABLE 126
#define SHELL             "/bin/sh"
#define BASH              "/bin/bash" // clients start it; images may have only SHELL

enum stage { STAGE_NONE, STAGE_SESSION, STAGE_STREAMS, STAGE_USER, STAGE_DIRECTORY };

struct child {
    const struct spawn *s;
    int in, out, err;  // the child's ends
    bool change_user;  // false: it is envd's user
    enum stage failed; // written by the child
    int failed_errno;
};

// ---- in the child, until `execve`

CHILD_CODE static int fail(struct child *c, enum stage stage)
{
    c->failed_errno = errno;
    c->failed = stage;
    return EXIT_NOT_FOUND;
}

// Handlers of envd would run in shared memory. Signals that are ignored, by envd or by its parent
// (nohup, a shell's background), would stay ignored after execve.
CHILD_CODE static void reset_signals(void)
{
    static const int OURS[] = {SIGCHLD, SIGTERM, SIGINT,  SIGHUP, SIGPIPE,
                               SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};
    const struct sigaction normal = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < ARRAY_LEN(OURS); i++)
        sigaction(OURS[i], &normal, NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

CHILD_CODE static bool set_user(const struct user *u)
{
    return syscall(SYS_setgroups, (size_t)u->group_count, u->groups) == 0 &&
           syscall(SYS_setresgid, u->gid, u->gid, u->gid) == 0 &&
           syscall(SYS_setresuid, u->uid, u->uid, u->uid) == 0;
}

CHILD_CODE static int say_not_started(const struct spawn *s, int sys)
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

// Behave like a shell: execute the first candidate that exists. A candidate without permission is
// skipped and remembered. A text file without "#!" is a script.
CHILD_CODE static int execute(const struct spawn *s)
{
    int sys = ENOENT;
    for (char *const *path = s->candidates; *path; path++) {
        if (s->falls_back && !path[1]) // the name decides how a shell behaves
            s->argv[0] = *path;
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

CHILD_CODE static int run_child(void *arg)
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
    reset_signals();
    return execute(c->s);
}

// ---- making the child

// A child inherits the score, so envd has the child's score while it starts it. Writing the child's
// own file would need a look-up in /proc, which costs more than all other steps here.
static void set_oom_score(const struct spawn *s, const char *score)
{
    ssize_t n = s->oom_fd < 0 ? 0 : pwrite(s->oom_fd, score, strlen(score), 0);
    (void)n; // without it the kernel has no preference
}

// ---- the parent's side

struct pipes {
    int in[2], out[2], err[2];
    int pty[2]; // envd's end, the child's end
};

static void close_pair(int pair[2])
{
    mem_close_fd(&pair[0]);
    mem_close_fd(&pair[1]);
}

// Programs also open their streams by name (/dev/stdin, /dev/stdout), which only the file owner of
// a pipe may do. Both ends are one file.
static void give_pipe(const int pair[2], const struct user *u)
{
    if (pair[0] < 0 || u->uid == geteuid())
        return;
    int rc = fchown(pair[0], u->uid, u->gid);
    (void)rc; // after a refusal the descriptors themselves still work
}

static int open_pipes(const struct spawn *s, struct pipes *p, struct err *e)
{
    if ((s->want_stdin && pipe2(p->in, O_CLOEXEC) < 0) || pipe2(p->out, O_CLOEXEC) < 0 ||
        pipe2(p->err, O_CLOEXEC) < 0)
        return err_sys(e, errno, "create pipes");
    give_pipe(p->in, s->user);
    give_pipe(p->out, s->user);
    give_pipe(p->err, s->user);
    return 0;
}

// A second descriptor for input, so that the loop polls input and output separately.
static int open_terminal(const struct spawn *s, struct pipes *p, struct err *e)
{
    if (pty_open(s->size, s->user->uid, &p->pty[0], &p->pty[1], e) < 0)
        return -1;
    p->in[1] = fcntl(p->pty[0], F_DUPFD_CLOEXEC, 0);
    return p->in[1] < 0 ? err_sys(e, errno, "copy a descriptor") : 0;
}

static int report(const struct spawn *s, const struct child *c, struct err *e)
{
    static const char *const DOING[] = {[STAGE_SESSION] = "create a session",
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
    const struct child_opts opts = {.cgroup_fd = s->cgroup_fd};
    s->pid = child_clone(run_child, &c, &opts, &s->in_cgroup);
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

// Start the program; return when it runs or has failed. If the program is missing or cannot
// be executed, that is not an error: the child prints a message on its stderr and exits with 127 or
// 126, as under a shell. A directory that cannot be entered, or a failed clone(2), is an error.
static int spawn_start(struct spawn *s, struct err *e)
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

// ---- a command: the paths where its program may be, its arguments, its command group

// Return whether the command is a login shell that runs a user's command, as clients start it: a
// script that was written for bash must not run in another shell.
static bool is_login_bash(const struct process_config *config)
{
    const char *first = json_string_value(json_array_get(config->args, 0));
    const char *cmd = config->cmd;
    bool bash = strcmp(cmd, BASH) == 0 || strcmp(cmd, "/usr" BASH) == 0 || strcmp(cmd, "bash") == 0;
    return bash && first && strcmp(first, "-l") == 0;
}

// Return the paths that `cmd` may mean: itself if it has a slash, else one for each directory of
// `path`. With `falls_back`, the last one is SHELL. One allocation: pointers, then text.
static char **make_candidates(const char *cmd, const char *path, bool falls_back)
{
    size_t count = 1;
    size_t len = strlen(cmd);
    bool search = len && !strchr(cmd, '/');
    for (const char *p = search ? path : ""; *p; p++)
        count += *p == ':';
    size_t room = (count + 2) * sizeof(char *) + strlen(path) + count * (len + 3);
    char **list = try_malloc(room);
    if (!list)
        return NULL;
    char *text = (char *)(list + count + 2);
    for (size_t i = 0; i < count; i++) {
        size_t n = search ? strcspn(path, ":") : 0;
        list[i] = text;
        text += sprintf(text, "%.*s%s%s", (int)n, path, search && n ? "/" : "", cmd) + 1;
        path += n + (search && path[n] == ':');
    }
    list[count] = falls_back ? (char *)(uintptr_t)SHELL : NULL;
    list[count + 1] = NULL;
    return list;
}

// Return argv, with one free element before it (see process_spawn.h). The strings are borrowed.
static char **make_argv(const struct process_config *config)
{
    size_t count = json_array_size(config->args);
    char **block = try_malloc((count + 3) * sizeof(char *));
    if (!block)
        return NULL;
    block[0] = NULL;
    block[1] = (char *)(uintptr_t)config->cmd;
    for (size_t i = 0; i < count; i++)
        block[2 + i] = (char *)(uintptr_t)json_string_value(json_array_get(config->args, i));
    block[2 + count] = NULL;
    return block;
}

struct process *process_start(struct processes *ps, const struct process_config *config,
                              struct err *e)
{
    if (!process__make_room(ps)) {
        err_set(e, ERR_LIMIT, "the limit of %d running commands is reached", PROCESSES_MAX);
        return NULL;
    }
    bool falls_back = is_login_bash(config);
    char **candidates auto_free = make_candidates(config->cmd, config->path, falls_back);
    char **argv auto_free = make_argv(config);
    if (!candidates || !argv) {
        err_set(e, ERR_LIMIT, "not enough memory for the command's arguments");
        return NULL;
    }
    int cgroup = command_group_take(ps->groups);
    struct spawn s = {
        .cmd = config->cmd,
        .argv = argv + 1,
        .envp = config->envp,
        .candidates = candidates,
        .falls_back = falls_back,
        .cwd = config->cwd,
        .user = config->user,
        .want_stdin = config->want_stdin,
        .want_pty = config->want_pty,
        .size = config->size,
        .null_fd = ps->null_fd,
        .oom_fd = ps->oom_fd,
        .oom_own = ps->oom_own,
        .oom_kills = process__oom_kills(ps->kills_fd),
        .cgroup_fd = command_group_fd(ps->groups, cgroup),
        .nofile = *ps->nofile,
    };
    int rc = spawn_start(&s, e);
    if (rc < 0 || !s.in_cgroup) {
        command_group_give_back(ps->groups, cgroup);
        cgroup = -1;
    }
    return rc < 0 ? NULL : process__add(ps, config, &s, cgroup);
}
