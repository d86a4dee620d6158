// SPDX-License-Identifier: Apache-2.0
// The guest's processes.
#include "sandbox-backend/nest/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/nest/nest.h"

#define CHILDREN_FILE  "/proc/thread-self/children"
#define CHILDREN_BYTES (1 << 20)
#define OWN_FDS        2 // entries of poll(2): the signals, the daemon
#define END_PASS_MS    2 // between two passes of keep_end
#define EXIT_NO_START  127

int keep_init(struct keep *k, struct err *e)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTERM);
    *k = (struct keep){.signals = -1, .daemon = -1};
    signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return err_sys(e, errno, "become the reaper of the guest's processes");
    sigprocmask(SIG_BLOCK, &taken, NULL);
    k->signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    return k->signals < 0 ? err_sys(e, errno, "wait for signals") : 0;
}

static void __attribute__((noreturn))
run_child(pid_t parent, char *const *argv, char *const *env, int fd)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) == 0 && fd_set_cloexec(fd, false, NULL) == 0 &&
        getppid() == parent)
        execve(argv[0], argv, env ? env : environ);
    fprintf(stderr, NEST_SAYS "start %s: %s\n", argv[0], strerror(errno));
    _exit(EXIT_NO_START);
}

int keep_start(struct keep *k, char *const *argv, char *const *env, int fd, struct err *e)
{
    pid_t self = getpid();
    k->child = fork();
    if (k->child == 0)
        run_child(self, argv, env, fd);
    return k->child < 0 ? err_sys(e, errno, "start a process") : 0;
}

// ---- the end

static void kill_children(void)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(CHILDREN_FILE, CHILDREN_BYTES, &text, NULL) < 0)
        return;
    char *rest = text.data;
    for (long child; rest && (child = strtol(rest, &rest, 10)) > 0;)
        kill((pid_t)child, SIGKILL);
}

// The children of a killed process become children of this one, so each pass finds a generation.
void keep_end(void)
{
    const struct timespec pause = {.tv_nsec = END_PASS_MS * 1000000L};
    for (;;) {
        kill_children();
        pid_t gone;
        while ((gone = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (gone < 0 && errno == ECHILD)
            return;
        nanosleep(&pause, NULL);
    }
}

// ---- the loop

// Reap. Return true when the guest's first process has ended; its wait status is then in *status.
static bool reap(const struct keep *k, int *status)
{
    bool ended = false;
    int found;
    for (pid_t pid; (pid = waitpid(-1, &found, WNOHANG)) > 0;)
        if (pid == k->child) {
            ended = true;
            *status = found;
        }
    return ended;
}

enum turn { TURN_ON, TURN_TERM, TURN_CHILD };

static enum turn read_signals(const struct keep *k, int *status)
{
    struct signalfd_siginfo info;
    while (read(k->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGTERM)
            return TURN_TERM;
        if (reap(k, status))
            return TURN_CHILD;
    }
    return TURN_ON;
}

static size_t watch(const struct keep *k, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = k->signals, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = k->daemon, .events = POLLIN};
    if (k->relay)
        return OWN_FDS + relay_watch(k->relay, fds + OWN_FDS);
    if (!k->carrier)
        return OWN_FDS;
    carrier_watch(k->carrier, fds + OWN_FDS);
    return OWN_FDS + CARRIER_FDS;
}

static enum turn serve(const struct keep *k, int *status, struct err *e)
{
    static struct pollfd fds[OWN_FDS + RELAY_FDS];
    size_t count = watch(k, fds);
    if (poll(fds, count, -1) < 0)
        return TURN_ON; // a signal, which comes again
    if (fds[1].revents)
        return TURN_TERM; // the daemon has ended
    enum turn turn = fds[0].revents ? read_signals(k, status) : TURN_ON;
    if (turn == TURN_ON && k->relay)
        relay_serve(k->relay, fds + OWN_FDS);
    if (turn == TURN_ON && k->carrier && carrier_serve(k->carrier, fds + OWN_FDS, e) < 0)
        return TURN_TERM;
    return turn;
}

static int exit_status(int status, struct err *e)
{
    if (WIFSIGNALED(status))
        return err_set(e, ERR_GONE, "its first process was ended by signal %d", WTERMSIG(status)),
               1;
    return WEXITSTATUS(status);
}

int keep_run(struct keep *k, struct err *e)
{
    int status = 0;
    enum turn turn;
    while ((turn = serve(k, &status, e)) == TURN_ON)
        ;
    keep_end();
    close(k->signals);
    return turn == TURN_CHILD ? exit_status(status, e) : err_is(e) ? 1 : 0;
}
