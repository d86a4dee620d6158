// SPDX-License-Identifier: Apache-2.0
// A driver for tests of the daemon: a machine is a process.
#include "tests/lib/process_driver.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/subproc.h"
#include "sandbox-backend/net/deadline.h"

#define LATE_MS 1000

struct machine {
    uv_loop_t *loop;
    struct subproc *process;
    struct deadline ready; // reports from the loop, never from within
    char *dir;
    char *vmnet;
    struct err err;
    machine_ready_cb on_ready;
    machine_exit_cb on_exit;
    void *ctx;
    int open; // handles
    bool dying;
    bool paused;
    void (*on_gone)(void *ctx);
    void *gone_ctx;
};

static json_t *template_json(const char *dir, struct err *e)
{
    char *path auto_free = str_printf("%s/template.json", dir);
    struct buf text auto_buf = BUF_INIT;
    return file_read(path, 65536, &text, e) < 0 ? NULL : json_parse(buf_str(&text), text.len, e);
}

static int facts(const char *dir, struct machine_facts *out, struct err *e)
{
    int64_t cpus = 0;
    json_t *json = template_json(dir, e);
    int result = json && json_get_int(json, "cpus", 1, 64, &cpus, 1, e) == 0 &&
                         json_get_int(json, "memory_mb", 1, 1 << 20, &out->memory_mb, 512, e) == 0
                     ? json_get_int(json, "disk_mb", 1, 1 << 20, &out->disk_mb, 1024, e)
                     : -1;
    if (result == 0)
        result = json_get_bool(json, "python", &out->python, false, e);
    json_decref(json);
    out->cpus = (int)cpus;
    return result;
}

static void on_handle_closed(struct machine *m)
{
    if (--m->open)
        return;
    void (*on_gone)(void *ctx) = m->on_gone;
    void *ctx = m->gone_ctx;
    free(m->vmnet);
    free(m->dir);
    free(m);
    if (on_gone)
        on_gone(ctx);
}

static void on_deadline_closed(struct deadline *d)
{
    on_handle_closed(container_of(d, struct machine, ready));
}

static void on_process_closed(void *ctx)
{
    on_handle_closed(ctx);
}

static void machine_close(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    m->on_gone = on_gone;
    m->gone_ctx = ctx;
    deadline_close(&m->ready, on_deadline_closed);
    if (m->process)
        subproc_close(m->process, on_process_closed, m);
}

static void on_process_exit(struct subproc *p, int status, void *ctx)
{
    (void)p;
    struct machine *m = ctx;
    char how[80], reason[120];
    if (m->dying) {
        machine_close(m, m->on_gone, m->gone_ctx);
        return;
    }
    subproc_describe(status, how, sizeof how);
    snprintf(reason, sizeof reason, "the machine's process %s", how);
    if (m->on_ready)
        return; // told by on_ready_due, or found out by whoever talks to it
    m->on_exit(m, reason, m->ctx);
}

static void on_ready_due(struct deadline *d)
{
    struct machine *m = container_of(d, struct machine, ready);
    machine_ready_cb on_ready = m->on_ready;
    m->on_ready = NULL;
    if (!err_is(&m->err)) {
        on_ready(m, NULL, m->ctx);
        return;
    }
    struct err e = m->err;
    void *ctx = m->ctx;
    machine_close(m, NULL, NULL);
    on_ready(NULL, &e, ctx);
}

// For tests to look at: what the guest would be allowed.
static void keep_policy(const struct machine *m, const struct net_policy *policy, struct err *e)
{
    if (!policy)
        return;
    char *path auto_free = str_printf("%s/policy.json", m->dir);
    json_t *json = net_policy_to_json(policy);
    char *text auto_free = json_to_string(json);
    json_decref(json);
    file_replace(path, text, strlen(text), 0600, e);
}

static struct machine *machine_new(uv_loop_t *loop, const struct machine_spec *spec,
                                   machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = xcalloc(1, sizeof *m);
    m->loop = loop;
    m->dir = xstrdup(spec->dir);
    m->vmnet = str_printf("%s/vm.net", spec->dir);
    m->on_ready = on_ready;
    m->on_exit = on_exit;
    m->ctx = ctx;
    m->open = 1;
    deadline_init(&m->ready, loop, on_ready_due);
    keep_policy(m, spec->policy, &m->err);
    return m;
}

static int listen_on(const char *path, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd auto_close = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        listen(fd, 128) < 0)
        return err_sys(e, errno, "listen on %s", path);
    return steal_fd(&fd);
}

// guest: the program that the template names, or "" for the machine's own.
static void start(struct machine *m, uv_loop_t *loop, const char *template, const char *guest,
                  const char *init_mode)
{
    char self[4096] = "";
    char flag[] = "--machine";
    char *mode auto_free = xstrdup(init_mode), *program auto_free = xstrdup(guest);
    char *where auto_free = xstrdup(template);
    char *own[] = {self, flag, m->dir, mode, NULL};
    char *real[] = {program, m->dir, self, where, NULL};
    int listener auto_close = listen_on(m->vmnet, &m->err);
    const int fds[] = {-1, -1, 2, listener};
    struct spawn_opts opts = {
        .file = *guest ? program : self, .argv = *guest ? real : own, .fds = fds, .fd_count = 4};
    if (listener < 0 || readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return;
    m->process = subproc_start(loop, &opts, on_process_exit, m, &m->err);
    m->open += m->process != NULL;
}

static void create(uv_loop_t *loop, const struct machine_spec *spec, machine_ready_cb on_ready,
                   machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = machine_new(loop, spec, on_ready, on_exit, ctx);
    const char *how = NULL, *init = NULL, *guest = NULL;
    json_t *json = template_json(spec->template, &m->err);
    if (!err_is(&m->err) && json && json_get_string(json, "create", &how, "", &m->err) == 0 &&
        json_get_string(json, "init", &init, "", &m->err) == 0 &&
        json_get_string(json, "guest", &guest, "", &m->err) == 0 && strcmp(how, "fail") != 0)
        start(m, loop, spec->template, guest, init);
    if (str_eq(how, "fail"))
        err_set(&m->err, ERR_NOT_FOUND, "the machine would not start");
    deadline_arm(&m->ready, str_eq(how, "late") ? LATE_MS : 0);
    json_decref(json);
}

// State "T" of proc(5); the name before it may hold anything but a ")" that is the last.
static bool is_stopped(pid_t pid)
{
    char *path auto_free = str_printf("/proc/%d/stat", (int)pid);
    struct buf text auto_buf = BUF_INIT;
    const char *end = file_read(path, 4096, &text, NULL) < 0 ? NULL : strrchr(buf_str(&text), ')');
    return end && end[1] == ' ' && end[2] == 'T';
}

static void adopt(uv_loop_t *loop, const struct machine_spec *spec, const json_t *record,
                  machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    struct machine *m = machine_new(loop, spec, on_ready, on_exit, ctx);
    int64_t pid = 0, start_time = 0;
    json_get_int(record, "pid", 2, INT32_MAX, &pid, 0, &m->err);
    json_get_int(record, "start_time", 0, INT64_MAX, &start_time, 0, &m->err);
    if (!err_is(&m->err))
        m->process =
            subproc_adopt(loop, (pid_t)pid, (uint64_t)start_time, on_process_exit, m, &m->err);
    m->paused = m->process && is_stopped(subproc_pid(m->process));
    m->open += m->process != NULL;
    deadline_arm(&m->ready, 0);
}

json_t *machine_record(const struct machine *m)
{
    return json_pack("{s:i, s:I}", "pid", (int)subproc_pid(m->process), "start_time",
                     (json_int_t)subproc_start_time(m->process));
}

const char *machine_vmnet(const struct machine *m)
{
    return m->vmnet;
}

// ---- pause, resume, policy

// Stops the process before its children, so that it makes no more of them; all else the other way.
static void signal_tree(pid_t pid, int number)
{
    char *path auto_free = str_printf("/proc/%d/task/%d/children", (int)pid, (int)pid);
    struct buf text auto_buf = BUF_INIT;
    char *rest = NULL;
    if (number == SIGSTOP)
        kill(pid, number);
    if (file_read(path, 65536, &text, NULL) == 0 && text.len)
        for (char *word = strtok_r(text.data, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
            signal_tree((pid_t)atoi(word), number);
    if (number != SIGSTOP)
        kill(pid, number);
}

struct request {
    struct machine *m;
    machine_done_cb cb;
    void *ctx;
    struct err err;
    struct deadline answer; // from the loop, as everything is answered
};

static void on_request_closed(struct deadline *d)
{
    struct request *r = container_of(d, struct request, answer);
    struct machine *m = r->m;
    free(r);
    on_handle_closed(m);
}

static void on_answer_due(struct deadline *d)
{
    struct request *r = container_of(d, struct request, answer);
    deadline_close(d, on_request_closed);
    r->cb(r->m, err_is(&r->err) ? &r->err : NULL, r->ctx);
}

static struct request *request_new(struct machine *m, machine_done_cb cb, void *ctx)
{
    struct request *r = xcalloc(1, sizeof *r);
    *r = (struct request){.m = m, .cb = cb, .ctx = ctx};
    m->open++;
    deadline_init(&r->answer, m->loop, on_answer_due);
    deadline_arm(&r->answer, 0);
    return r;
}

static void set_paused(struct machine *m, bool paused, machine_done_cb cb, void *ctx)
{
    struct request *r = request_new(m, cb, ctx);
    if (m->paused == paused)
        err_set(&r->err, ERR_CONFLICT, paused ? "it is paused already" : "it is not paused");
    else
        signal_tree(subproc_pid(m->process), paused ? SIGSTOP : SIGCONT);
    m->paused = paused;
}

void machine_pause(struct machine *m, machine_done_cb cb, void *ctx)
{
    set_paused(m, true, cb, ctx);
}

void machine_resume(struct machine *m, machine_done_cb cb, void *ctx)
{
    set_paused(m, false, cb, ctx);
}

bool machine_is_paused(const struct machine *m)
{
    return m->paused;
}

void machine_set_policy(struct machine *m, const struct net_policy *policy, machine_done_cb cb,
                        void *ctx)
{
    struct request *r = request_new(m, cb, ctx);
    keep_policy(m, policy, &r->err);
}

void machine_kill(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    if (subproc_has_exited(m->process)) {
        machine_close(m, on_gone, ctx);
        return;
    }
    m->dying = true;
    m->on_gone = on_gone;
    m->gone_ctx = ctx;
    if (m->paused) // its children would stay stopped for ever
        signal_tree(subproc_pid(m->process), SIGKILL);
    subproc_kill(m->process);
}

void machine_release(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    machine_close(m, on_gone, ctx);
}

const struct driver process_driver = {
    .name = "process",
    .isolation = "none (test)",
    .facts = facts,
    .create = create,
    .adopt = adopt,
};
