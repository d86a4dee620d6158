// SPDX-License-Identifier: Apache-2.0
// What is asked of a process driver's machine: one after the other, each answered from the loop.
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/process_image.h"
#include "tests/lib/process_internal.h"
#include "tests/lib/process_tree.h"

#define LOOK_MS 1 // whether it has stopped

enum request_kind { PAUSE, RESUME, POLICY, SAVE };

struct process_request {
    STAILQ_ENTRY(process_request) link;
    struct machine *m;
    enum request_kind kind;
    machine_done_cb done;
    machine_saved_cb saved;
    void (*runs)(struct machine *m, void *ctx);
    void *ctx;
    struct err err;
    bool begun; // it was told to stop

    struct net_policy policy; // POLICY
    char *dir;                // owned; SAVE
    enum machine_save_use use;
    bool was_running;
    struct machine_saved out;
    uint64_t since_ns; // it stands still for the copy
    uv_work_t work;
};

static struct process_request *request_new(struct machine *m, enum request_kind kind,
                                           machine_done_cb done, void *ctx)
{
    struct process_request *r = xcalloc(1, sizeof *r);
    *r = (struct process_request){.m = m, .kind = kind, .done = done, .ctx = ctx};
    STAILQ_INSERT_TAIL(&m->requests, r, link);
    if (!m->copying)
        deadline_arm(&m->turn, 0);
    return r;
}

void machine_pause(struct machine *m, machine_done_cb cb, void *ctx)
{
    request_new(m, PAUSE, cb, ctx);
}

void machine_resume(struct machine *m, machine_done_cb cb, void *ctx)
{
    request_new(m, RESUME, cb, ctx);
}

void machine_set_policy(struct machine *m, const struct net_policy *policy, machine_done_cb cb,
                        void *ctx)
{
    net_policy_copy(&request_new(m, POLICY, cb, ctx)->policy, policy);
}

void machine_save(struct machine *m, const char *dir, enum machine_save_use use,
                  void (*on_runs)(struct machine *m, void *ctx), machine_saved_cb cb, void *ctx)
{
    struct process_request *r = request_new(m, SAVE, NULL, ctx);
    r->runs = on_runs;
    r->saved = cb;
    r->dir = xstrdup(dir);
    r->use = use;
}

bool machine_is_paused(const struct machine *m)
{
    return m->paused;
}

// ---- serving
// The user is called last, and may do anything with the machine.
static void answer(struct process_request *r)
{
    struct machine *m = r->m;
    struct process_request it = *r;
    STAILQ_REMOVE_HEAD(&m->requests, link);
    deadline_arm(&m->turn, 0);
    net_policy_fini(&it.policy);
    free(it.dir);
    free(r);
    const struct err *e = err_is(&it.err) ? &it.err : NULL;
    if (it.kind == SAVE)
        it.saved(m, e ? NULL : &it.out, e, it.ctx);
    else
        it.done(m, e, it.ctx);
}

static void copy_out(uv_work_t *work)
{
    struct process_request *r = container_of(work, struct process_request, work);
    const char *how = "";
    process__note(r->m->dir, "save");
    json_t *json = process__template_json(r->m->template, &r->err);
    if (json)
        json_get_string(json, "save", &how, "", &r->err);
    if (str_eq(how, "late"))
        usleep(PROCESS_LATE_MS * 1000);
    if (str_eq(how, "fail"))
        err_set(&r->err, ERR_LIMIT, "there is no room for the image");
    json_decref(json);
    if (!err_is(&r->err))
        process_image_write(r->m->dir, r->dir, &r->out.bytes, &r->err);
}

static void on_copied(uv_work_t *work, int status)
{
    (void)status;
    struct process_request *r = container_of(work, struct process_request, work);
    struct machine *m = r->m;
    m->copying = false;
    m->paused = true;
    if (r->was_running && (err_is(&r->err) || r->use != SAVE_IN_PLACE)) {
        process_tree_signal(subproc_pid(m->process), SIGCONT);
        m->paused = false;
        r->out.standstill_us = (int64_t)((uv_hrtime() - r->since_ns) / 1000);
        if (r->runs)
            r->runs(m, r->ctx);
    }
    if (m->ending || m->exit_reason)
        deadline_arm(&m->turn, 0); // which tells it what became of the machine
    else
        answer(r);
}

// Whether it stands still; else this turn is to be repeated.
static bool has_stopped(struct process_request *r)
{
    struct machine *m = r->m;
    pid_t pid = subproc_pid(m->process);
    if (!r->begun) {
        r->begun = true;
        r->since_ns = uv_hrtime();
        process_tree_signal(pid, SIGSTOP);
    }
    if (process_tree_is_stopped(pid))
        return true;
    deadline_arm(&m->turn, LOOK_MS);
    return false;
}

static void serve_pause(struct process_request *r)
{
    if (r->m->paused)
        err_set(&r->err, ERR_CONFLICT, "it is paused already");
    else if (!has_stopped(r))
        return;
    r->m->paused = true;
    answer(r);
}

static void serve_resume(struct process_request *r)
{
    if (!r->m->paused)
        err_set(&r->err, ERR_CONFLICT, "it is not paused");
    else
        process_tree_signal(subproc_pid(r->m->process), SIGCONT);
    r->m->paused = false;
    answer(r);
}

static void serve_save(struct process_request *r)
{
    r->was_running = !r->m->paused;
    if (r->was_running && !has_stopped(r))
        return;
    r->m->copying = true;
    uv_queue_work(r->m->loop, &r->work, copy_out, on_copied);
}

static void serve(struct process_request *r)
{
    switch (r->kind) {
    case PAUSE:
        serve_pause(r);
        break;
    case RESUME:
        serve_resume(r);
        break;
    case SAVE:
        serve_save(r);
        break;
    case POLICY:
        process__keep_policy(r->m, &r->policy, &r->err);
        answer(r);
        break;
    }
}

// All requests have been answered.
static void settle(struct machine *m)
{
    if (m->ending && (m->released || subproc_has_exited(m->process))) {
        process__close(m);
    } else if (!m->ending && m->exit_reason && m->on_exit) {
        machine_exit_cb on_exit = steal(&m->on_exit);
        on_exit(m, m->exit_reason, m->ctx);
    }
}

void process__turn(struct deadline *d)
{
    struct machine *m = container_of(d, struct machine, turn);
    struct process_request *r = STAILQ_FIRST(&m->requests);
    if (m->copying)
        return;
    if (!r) {
        settle(m);
        return;
    }
    if (m->released && r->begun)
        process_tree_signal(subproc_pid(m->process), SIGCONT); // it was on the way to a stop
    if (m->ending)
        err_set(&r->err, ERR_CANCELED, "the machine is being ended");
    else if (m->exit_reason)
        err_set(&r->err, ERR_UNAVAILABLE, "%s", m->exit_reason);
    else if (subproc_has_exited(m->process))
        err_set(&r->err, ERR_UNAVAILABLE, "the machine's process has ended");
    if (err_is(&r->err))
        answer(r);
    else
        serve(r);
}

// ---- its end
static void end(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    assert(!m->ending);
    m->ending = true;
    m->on_gone = on_gone;
    m->gone_ctx = ctx;
    deadline_arm(&m->turn, 0);
}

// Also its children, which would stay stopped for ever when they are.
static void kill_all(const struct machine *m)
{
    if (subproc_has_exited(m->process))
        return;
    process_tree_signal(subproc_pid(m->process), SIGKILL);
    subproc_kill(m->process);
}

void machine_kill(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    end(m, on_gone, ctx);
    kill_all(m);
}

// An image that is being copied in is waited for.
void machine_abandon(struct machine *m)
{
    err_set(&m->err, ERR_CANCELED, "it was given up while it started");
    if (m->process)
        kill_all(m);
}

void machine_release(struct machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    m->released = true;
    end(m, on_gone, ctx);
}
