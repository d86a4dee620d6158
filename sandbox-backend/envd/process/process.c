// SPDX-License-Identifier: Apache-2.0
// The table of commands that envd runs.
//
// Theory of operation. A command runs in a process session of its own and, where cgroups exist, in
// a command group, so that a kill ends everything that it started. Its states:
//
//   RUNNING   until SIGCHLD reports its exit
//   DRAINING  until its output pipes, or its terminal, have ended
//   ENDED     then its listeners get the end, so the end comes exactly once, after all output
//
// A grandchild in the background ("server &") can hold the pipes forever. So a DRAINING command
// also becomes ENDED when no output has come for DRAIN_QUIET_MS, or DRAIN_MAX_MS after its exit. If
// envd killed it, DRAIN_KILLED_MS replaces the first. The pipes stay open even then: envd reads and
// drops what the grandchild writes, since closing them would end it with SIGPIPE. (E2B's envd waits
// for the pipes without a limit.)
//
// Back-pressure: while any listener is blocked, envd reads no output, the pipe fills, and the
// command waits in write(2). A DRAINING command with a blocked listener stays DRAINING. Without a
// listener, envd reads and drops output: a client that leaves neither stops nor kills a command.
// Its time limit kills it with or without a listener, as the client that asked for the limit may
// have left.
//
// An ENDED command is kept for PROCESS_KEPT_MS, so that a late Connect gets its exit code. The
// table holds PROCESSES_MAX; when it is full, the oldest ENDED command is removed. A command needs
// at most three descriptors.
#include "sandbox-backend/envd/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/process/command_group.h"
#include "sandbox-backend/envd/process/process_internal.h"
#include "sandbox-backend/envd/process/process_spawn.h"
#include "sandbox-backend/log/log.h"

#define PROCESS_KEPT_MS 30000
#define DRAIN_QUIET_MS  300
#define DRAIN_MAX_MS    3000
#define DRAIN_KILLED_MS 50

static void set_state(struct process *p, enum process_state state);
static void on_child_signal(uv_signal_t *handle, int signum);
static void limit_open(struct process *p, int64_t ms);
static void limit_close(struct process *p);
static void exited(struct process *p, int status);
static void on_deadline(struct deadline *d);
static void finish(struct process *p);
static void release(struct process *p);
static void on_deadline_closed(struct deadline *d);

// ---- the table

// Many commands need many descriptors. The commands themselves get the limit that envd was given.
static void raise_descriptor_limit(struct processes *ps)
{
    ps->nofile = xmalloc(sizeof *ps->nofile);
    getrlimit(RLIMIT_NOFILE, ps->nofile);
    struct rlimit raised = *ps->nofile;
    raised.rlim_cur = raised.rlim_max;
    setrlimit(RLIMIT_NOFILE, &raised);
}

struct processes *processes_new(uv_loop_t *loop, const char *cgroup_root)
{
    struct processes *ps = xcalloc(1, sizeof *ps);
    ps->loop = loop;
    ps->groups = command_groups_new(cgroup_root);
    ps->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    ps->oom_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    ssize_t n = ps->oom_fd < 0 ? 0 : read(ps->oom_fd, ps->oom_own, sizeof ps->oom_own - 1);
    ps->oom_own[n > 0 ? n : 0] = '\0';
    ps->kills_fd = process__oom_open();
    raise_descriptor_limit(ps);
    uv_signal_init(loop, &ps->child_signal);
    uv_signal_start(&ps->child_signal, on_child_signal, SIGCHLD);
    uv_unref((uv_handle_t *)&ps->child_signal);
    return ps;
}

static void free_table(struct processes *ps)
{
    if (!ps->closing || !ps->signal_closed || ps->alive)
        return;
    command_groups_free(ps->groups);
    mem_close_fd(&ps->null_fd);
    mem_close_fd(&ps->oom_fd);
    mem_close_fd(&ps->kills_fd);
    free(ps->nofile);
    free(ps);
}

static void on_signal_closed(uv_handle_t *handle)
{
    struct processes *ps = container_of((uv_signal_t *)handle, struct processes, child_signal);
    ps->signal_closed = true;
    free_table(ps);
}

void processes_close(struct processes *ps)
{
    ps->closing = true;
    for (struct process *p; (p = LIST_FIRST(&ps->list));) {
        if (p->state == PROCESS_RUNNING)
            process_signal_all(p, SIGKILL);
        while (!LIST_EMPTY(&p->listeners))
            process_detach(LIST_FIRST(&p->listeners));
        release(p);
    }
    uv_close((uv_handle_t *)&ps->child_signal, on_signal_closed);
}

// Remove a process from the table and close its handles. It is freed when the last one is closed.
static void release(struct process *p)
{
    struct processes *ps = p->table;
    LIST_REMOVE(p, link);
    ps->count--;
    command_group_give_back(ps->groups, p->group);
    p->group = -1;
    struct err gone = ERR_INIT;
    err_set(&gone, ERR_INTERNAL, "the process has ended");
    process__stdin_close(p, &gone);
    for (int i = 0; i < PROCESS_STREAMS; i++)
        process__output_close(&p->outputs[i]);
    p->released = true;
    limit_close(p);
    deadline_close(&p->deadline, on_deadline_closed);
}

bool process__make_room(struct processes *ps)
{
    if (ps->count < PROCESSES_MAX)
        return true;
    struct process *oldest = NULL;
    struct process *p;
    LIST_FOREACH (p, &ps->list, link)
        if (p->state == PROCESS_ENDED)
            oldest = p;
    if (oldest)
        release(oldest);
    return oldest != NULL;
}

struct process *process__add(struct processes *ps, const struct process_config *config,
                             const struct spawn *s, int cgroup)
{
    struct process *p = xcalloc(1, sizeof *p);
    p->table = ps;
    p->pid = s->pid;
    p->group = cgroup;
    p->oom_kills = s->oom_kills;
    p->tag = config->tag ? xstrdup(config->tag) : NULL;
    p->shown = json_incref(config->shown);
    LIST_INSERT_HEAD(&ps->list, p, link);
    ps->count++;
    ps->alive++;
    p->input.fd = s->in;
    STAILQ_INIT(&p->input.writes);
    p->pty = s->pty >= 0;
    deadline_init(&p->deadline, ps->loop, on_deadline);
    p->open_handles++;
    limit_open(p, config->timeout_ms);
    process__output_open(p, PROCESS_STDOUT, s->out);
    process__output_open(p, PROCESS_STDERR, s->err);
    process__output_open(p, PROCESS_PTY, s->pty);
    process__output_update(p);
    return p;
}

// ---- listeners

void process_attach(struct process *p, struct process_listener *l)
{
    l->process = p;
    l->blocked = false;
    LIST_INSERT_HEAD(&p->listeners, l, link);
}

void process_detach(struct process_listener *l)
{
    if (!l->process)
        return;
    process_set_blocked(l, false);
    LIST_REMOVE(l, link);
    l->process = NULL;
}

bool process__is_blocked(const struct process *p)
{
    const struct process_listener *l;
    LIST_FOREACH (l, &p->listeners, link)
        if (l->blocked)
            return true;
    return false;
}

void process_set_blocked(struct process_listener *l, bool blocked)
{
    if (!l->process || l->blocked == blocked)
        return;
    l->blocked = blocked;
    process__output_update(l->process);
}

// ---- signals and the end

void process_signal(struct process *p, int signal)
{
    p->killed = true;
    if (p->state == PROCESS_RUNNING)
        kill(p->pid, signal);
}

void process_signal_all(struct process *p, int signal)
{
    p->killed = true;
    if (p->state != PROCESS_RUNNING) {
        // Another process may have the pid by now; the command group is still this command's.
        if (p->state == PROCESS_DRAINING && signal == SIGKILL)
            command_group_kill(p->table->groups, p->group);
        return;
    }
    if (signal != SIGKILL)
        kill(-p->pid, signal);
    else if (p->group >= 0)
        command_group_kill(p->table->groups, p->group);
    else
        tree_kill(p->pid);
}

static struct process *find_running(const struct processes *ps, pid_t pid)
{
    struct process *p;
    LIST_FOREACH (p, &ps->list, link)
        if (p->pid == pid && p->state == PROCESS_RUNNING)
            return p;
    return NULL;
}

static void on_child_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    const struct processes *ps = container_of(handle, struct processes, child_signal);
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        struct process *p = find_running(ps, pid);
        if (p)
            exited(p, status);
    }
}

// Each state is entered once, from the state before it.
static void set_state(struct process *p, enum process_state state)
{
    static const char *const NAMES[] = {"running", "draining", "ended"};
    if (state != p->state + 1)
        abort();
    log_debug("process.state", "pid=%d %s -> %s", p->pid, NAMES[p->state], NAMES[state]);
    p->state = state;
}

// SIGKILL ended the command itself, or the last program of its shell.
static bool was_killed(int status)
{
    return WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 128 + SIGKILL;
}

static void exited(struct process *p, int status)
{
    bool out_of_memory =
        !p->killed && was_killed(status) && process__oom_kills(p->table->kills_fd) != p->oom_kills;
    process__describe(&p->end, status, out_of_memory);
    set_state(p, PROCESS_DRAINING);
    p->exited_ms = p->output_ms = (int64_t)uv_now(p->table->loop);
    struct err gone = ERR_INIT;
    err_set(&gone, ERR_INTERNAL, "the process has ended");
    process__stdin_close(p, &gone);
    process__output_drain(p);
    process__check_end(p);
    if (p->state == PROCESS_DRAINING)
        deadline_arm(&p->deadline, p->killed ? DRAIN_KILLED_MS : DRAIN_QUIET_MS);
}

void process__check_end(struct process *p)
{
    if (process__output_is_open(p))
        return;
    if (p->state == PROCESS_DRAINING)
        finish(p);
    else if (p->state == PROCESS_ENDED && !p->kept && !p->released)
        release(p);
}

static void on_drain_deadline(struct process *p)
{
    int64_t now = (int64_t)uv_now(p->table->loop);
    int64_t quiet = p->killed ? DRAIN_KILLED_MS : DRAIN_QUIET_MS;
    bool over = now - p->output_ms >= quiet || now - p->exited_ms >= DRAIN_MAX_MS;
    if (over && !process__is_blocked(p))
        process__output_drain(p); // after an unblock since the last poll, the pipe may be full
    if (over && !process__is_blocked(p))
        finish(p);
    else
        deadline_arm(&p->deadline, (uint64_t)quiet);
}

static void on_deadline(struct deadline *d)
{
    struct process *p = container_of(d, struct process, deadline);
    if (p->state == PROCESS_DRAINING) {
        on_drain_deadline(p);
        return;
    }
    p->kept = false;
    process__check_end(p);
}

static void finish(struct process *p)
{
    set_state(p, PROCESS_ENDED);
    p->kept = true;
    deadline_disarm(&p->limit);
    deadline_arm(&p->deadline, PROCESS_KEPT_MS);
    json_decref(steal(&p->shown));
    for (struct process_listener *l; (l = LIST_FIRST(&p->listeners));) {
        process_detach(l);
        l->on_end(l, &p->end);
    }
    command_group_give_back(p->table->groups, p->group);
    p->group = -1;
}

static void on_deadline_closed(struct deadline *d)
{
    process__handle_closed(container_of(d, struct process, deadline));
}

void process__handle_closed(struct process *p)
{
    if (--p->open_handles)
        return;
    struct processes *ps = p->table;
    json_decref(p->shown);
    free(p->tag);
    free(p);
    ps->alive--;
    free_table(ps);
}

// ---- the time limit

static void on_limit(struct deadline *d)
{
    struct process *p = container_of(d, struct process, limit);
    log_debug("process.limit", "pid=%d is killed: it reached its time limit", p->pid);
    process_signal_all(p, SIGKILL);
    struct process_listener *next;
    for (struct process_listener *l = LIST_FIRST(&p->listeners); l; l = next) {
        next = LIST_NEXT(l, link);
        if (l->on_limit)
            l->on_limit(l);
    }
}

static void on_limit_closed(struct deadline *d)
{
    process__handle_closed(container_of(d, struct process, limit));
}

static void limit_open(struct process *p, int64_t ms)
{
    deadline_init(&p->limit, p->table->loop, on_limit);
    p->open_handles++;
    if (ms > 0)
        deadline_arm(&p->limit, (uint64_t)ms);
}

static void limit_close(struct process *p)
{
    deadline_close(&p->limit, on_limit_closed);
}

// ---- look-up

// Prefer a process that has not ended, and the newest of several.
static struct process *prefer(struct process *found, struct process *p)
{
    return !found || (found->state == PROCESS_ENDED && p->state != PROCESS_ENDED) ? p : found;
}

static struct process *unless_ended(struct process *found, bool ended_too)
{
    return found && found->state == PROCESS_ENDED && !ended_too ? NULL : found;
}

struct process *process_by_pid(struct processes *ps, int64_t pid, bool ended_too)
{
    struct process *found = NULL;
    struct process *p;
    LIST_FOREACH (p, &ps->list, link)
        if (p->pid == pid)
            found = prefer(found, p);
    return unless_ended(found, ended_too);
}

struct process *process_by_tag(struct processes *ps, const char *tag, bool ended_too)
{
    struct process *found = NULL;
    struct process *p;
    LIST_FOREACH (p, &ps->list, link)
        if (str_eq(p->tag, tag))
            found = prefer(found, p);
    return unless_ended(found, ended_too);
}

void process_each(struct processes *ps, void (*on_process)(const struct process *p, void *ctx),
                  void *ctx)
{
    const struct process *p;
    LIST_FOREACH (p, &ps->list, link)
        if (p->state != PROCESS_ENDED)
            on_process(p, ctx);
}

int64_t process_pid(const struct process *p)
{
    return p->pid;
}

const char *process_tag(const struct process *p)
{
    return p->tag;
}

bool process_is_pty(const struct process *p)
{
    return p->pty;
}

int process_resize(struct process *p, struct pty_size size, struct err *e)
{
    const struct process_output *o = &p->outputs[PROCESS_PTY];
    if (!p->pty)
        return err_set(e, ERR_INTERNAL, "error resizing tty: tty not assigned to process");
    return o->fd >= 0 ? pty_resize(o->fd, size, e) : 0; // the terminal has ended
}

const json_t *process_shown(const struct process *p)
{
    return p->shown;
}

const struct process_end *process_end(const struct process *p)
{
    return p->state == PROCESS_ENDED ? &p->end : NULL;
}
