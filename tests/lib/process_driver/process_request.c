// SPDX-License-Identifier: Apache-2.0
// Requests to a process driver's machine: they run one after another, and each is answered from the
// loop.
#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/process_driver/process_image.h"
#include "tests/lib/process_driver/process_internal.h"
#include "tests/lib/process_driver/process_tree.h"

#define LOOK_MS 1 // how often the stop of the processes is checked

enum request_kind { PAUSE, RESUME, POLICY, SAVE };

struct process_request {
    STAILQ_ENTRY(process_request) link;
    struct process_machine *m;
    enum request_kind kind;
    machine_done_cb done;
    machine_saved_cb saved;
    machine_runs_cb runs;
    void *ctx;
    struct err err;
    bool begun; // the processes were told to stop

    struct net_policy policy; // for POLICY
    bool sets_egress;         // likewise
    char *egress;             // owned; NULL: none
    char *dir;                // owned; for SAVE
    enum machine_save_use use;
    bool was_running;
    struct machine_saved out;
    uint64_t since_ns; // when the machine stopped for the copy
    uv_work_t work;
};

static struct process_request *request_new(struct process_machine *m, enum request_kind kind,
                                           machine_done_cb done, void *ctx)
{
    struct process_request *r = xcalloc(1, sizeof *r);
    *r = (struct process_request){.m = m, .kind = kind, .done = done, .ctx = ctx};
    STAILQ_INSERT_TAIL(&m->requests, r, link);
    if (!m->copying)
        deadline_arm(&m->turn, 0);
    return r;
}

void process__pause(struct machine *machine, machine_done_cb cb, void *ctx)
{
    struct process_machine *m = process_of(machine);
    struct process_request *r = request_new(m, PAUSE, cb, ctx);
    process__stands(machine, &r->err);
}

void process__resume(struct machine *machine, machine_done_cb cb, void *ctx)
{
    struct process_machine *m = process_of(machine);
    request_new(m, RESUME, cb, ctx);
}

void process__set_policy(struct machine *machine, const struct net_policy *policy,
                         machine_done_cb cb, void *ctx)
{
    struct process_machine *m = process_of(machine);
    net_policy_copy(&request_new(m, POLICY, cb, ctx)->policy, policy);
}

void process__set_egress(struct machine *machine, const struct net_policy *policy,
                         const struct machine_egress *egress, machine_done_cb cb, void *ctx)
{
    struct process_machine *m = process_of(machine);
    struct process_request *r = request_new(m, POLICY, cb, ctx);
    net_policy_copy(&r->policy, policy);
    r->sets_egress = true;
    r->egress = egress->config ? xstrdup(egress->config) : NULL;
}

void process__save(struct machine *machine, const char *dir, enum machine_save_use use,
                   machine_runs_cb on_runs, machine_saved_cb cb, void *ctx)
{
    struct process_machine *m = process_of(machine);
    struct process_request *r = request_new(m, SAVE, NULL, ctx);
    r->runs = on_runs;
    r->saved = cb;
    r->dir = xstrdup(dir);
    r->use = use;
}

bool process__is_paused(const struct machine *machine)
{
    const struct process_machine *m = process_of_const(machine);
    return m->paused;
}

// ---- serving
// Answer the request and free it. The callback comes last, because it may free the machine.
static void answer(struct process_request *r)
{
    struct process_machine *m = r->m;
    struct process_request it = *r;
    STAILQ_REMOVE_HEAD(&m->requests, link);
    deadline_arm(&m->turn, 0);
    net_policy_fini(&it.policy);
    free(it.egress);
    free(it.dir);
    free(r);
    const struct err *e = err_is(&it.err) ? &it.err : NULL;
    if (it.kind == SAVE)
        it.saved(&m->machine, e ? NULL : &it.out, e, it.ctx);
    else
        it.done(&m->machine, e, it.ctx);
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
    while (process__is_held(r->m->template, "save"))
        usleep(PROCESS_LOOK_MS * 1000);
    if (str_eq(how, "fail"))
        err_set(&r->err, ERR_LIMIT, "there is no room for the image");
    json_decref(json);
    if (!err_is(&r->err))
        process_image_write(r->m->dir, r->dir, save_is_disk(r->use), &r->out.bytes, &r->err);
}

static void on_copied(uv_work_t *work, int status)
{
    (void)status;
    struct process_request *r = container_of(work, struct process_request, work);
    struct process_machine *m = r->m;
    m->copying = false;
    m->paused = true;
    if (r->was_running && (err_is(&r->err) || !save_is_in_place(r->use))) {
        process_tree_signal(subproc_pid(m->process), SIGCONT);
        m->paused = false;
        r->out.standstill_us = (int64_t)((uv_hrtime() - r->since_ns) / 1000);
        if (r->runs)
            r->runs(&m->machine, r->ctx);
    }
    if (m->ending || m->exit_reason)
        deadline_arm(&m->turn, 0); // which reports the end of the machine
    else
        answer(r);
}

// Return true if the machine has stopped; else the caller repeats this turn.
static bool has_stopped(struct process_request *r)
{
    struct process_machine *m = r->m;
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
        err_set(&r->err, ERR_CONFLICT, "the machine is already paused");
    else if (!has_stopped(r))
        return;
    r->m->paused = true;
    answer(r);
}

static void serve_resume(struct process_request *r)
{
    if (process__is_held(r->m->template, "resume")) {
        deadline_arm(&r->m->turn, PROCESS_LOOK_MS);
        return;
    }
    if (!r->m->paused)
        err_set(&r->err, ERR_CONFLICT, "the machine is not paused");
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
        if (r->sets_egress)
            process__keep_egress(r->m, r->egress, &r->err);
        answer(r);
        break;
    }
}

// Report the end of the machine, after all requests have been answered.
static void settle(struct process_machine *m)
{
    if (m->ending && (m->released || subproc_has_exited(m->process))) {
        process__close(m);
    } else if (!m->ending && m->exit_reason && m->on_exit) {
        machine_exit_cb on_exit = steal(&m->on_exit);
        on_exit(&m->machine, m->exit_reason, m->ctx);
    }
}

void process__turn(struct deadline *d)
{
    struct process_machine *m = container_of(d, struct process_machine, turn);
    struct process_request *r = STAILQ_FIRST(&m->requests);
    if (m->copying)
        return;
    if (!r) {
        settle(m);
        return;
    }
    if (m->released && r->begun)
        process_tree_signal(subproc_pid(m->process), SIGCONT); // it may have been told to stop
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
static void end(struct process_machine *m, void (*on_gone)(void *ctx), void *ctx)
{
    assert(!m->ending);
    m->ending = true;
    m->on_gone = on_gone;
    m->gone_ctx = ctx;
    deadline_arm(&m->turn, 0);
}

// Kill the machine with its children, which would otherwise stay stopped for ever.
static void kill_all(const struct process_machine *m)
{
    if (subproc_has_exited(m->process))
        return;
    process_tree_signal(subproc_pid(m->process), SIGKILL);
    subproc_kill(m->process);
}

void process__kill(struct machine *machine, void (*on_gone)(void *ctx), void *ctx)
{
    struct process_machine *m = process_of(machine);
    end(m, on_gone, ctx);
    kill_all(m);
}

// If a thread copies an image in, wait for it.
void process__abandon(struct machine *machine)
{
    struct process_machine *m = process_of(machine);
    err_set(&m->err, ERR_CANCELED, "the machine was ended while it started");
    if (m->process)
        kill_all(m);
}

void process__release(struct machine *machine, void (*on_gone)(void *ctx), void *ctx)
{
    struct process_machine *m = process_of(machine);
    m->released = true;
    end(m, on_gone, ctx);
}
