// SPDX-License-Identifier: Apache-2.0
// The guest's processes.
#include "sandbox-backend/nest/keep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/nest/nest.h"
#include "sandbox-backend/nest/tree.h"

#define OWN_FDS       2    // entries of poll(2): the signals, the daemon
#define END_MS        5000 // less than the daemon waits for this process
#define PASS_MS       2    // between two passes of keep_end, at first
#define PASS_MAX_MS   64
#define EXIT_NO_START 127

int keep_init(struct keep *k, int daemon, struct err *e)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, SIGTERM);
    *k = (struct keep){.signals = -1, .daemon = daemon};
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

// Reap all that have ended. Return false when no child is left.
static bool reap_all(void)
{
    pid_t gone;
    while ((gone = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return gone == 0;
}

int keep_end(struct err *e)
{
    int waited = 0;
    for (int pause = PASS_MS; waited < END_MS; pause = pause < PASS_MAX_MS ? 2 * pause : pause) {
        tree_kill();
        if (!reap_all())
            return 0;
        poll(NULL, 0, pause);
        waited += pause;
    }
    return reap_all() ? err_set(e, ERR_TIMEOUT, "processes of the guest cannot be ended") : 0;
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

static void watch_own(const struct keep *k, struct pollfd *fds)
{
    fds[0] = (struct pollfd){.fd = k->signals, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = k->daemon, .events = POLLIN};
}

// Look at the entries of watch_own.
static enum turn serve_own(const struct keep *k, const struct pollfd *fds, int *status)
{
    if (fds[1].revents)
        return TURN_TERM; // the daemon has ended
    return fds[0].revents ? read_signals(k, status) : TURN_ON;
}

int keep_wait(const struct keep *k, int fd, struct err *e)
{
    struct pollfd fds[OWN_FDS + 1] = {[OWN_FDS] = {.fd = fd, .events = POLLIN}};
    int status;
    for (watch_own(k, fds);;) {
        if (poll(fds, ARRAY_LEN(fds), -1) < 0)
            continue; // a signal, which comes again
        if (fds[OWN_FDS].revents)
            return 0;
        if (serve_own(k, fds, &status) != TURN_ON)
            return err_set(e, ERR_CANCELED, "the guest was ended while it started");
    }
}

static size_t watch(const struct keep *k, struct pollfd *fds)
{
    watch_own(k, fds);
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
    if (poll(fds, count, k->relay ? relay_wait_ms(k->relay) : -1) < 0)
        return TURN_ON; // a signal, which comes again
    enum turn turn = serve_own(k, fds, status);
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
    if (turn == TURN_CHILD)
        status = exit_status(status, e);
    keep_end(e); // the first error counts
    close(k->signals);
    return turn == TURN_CHILD ? status : err_is(e) ? 1 : 0;
}
