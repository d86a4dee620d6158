// SPDX-License-Identifier: Apache-2.0
// Prepare a pool member, until it is ready. The numbers are the steps in pool_internal.h.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/daemon/pool/pool_internal.h"
#include "sandbox-backend/daemon/sandbox/bringup.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/record.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/log/log.h"

#define WARM_WAIT_MS 60000 // for each step; a background machine may have to wait for others
#define WARM_ROUNDS  2     // under TCG, the hand-out takes 9 to 47 ms after one, 8 to 22 after more

// Background work in the guest, such as forking the Python kernel's next process, would slow the
// first command, so wait until the machine is quiet: QUIET_LOOKS samples in a row below
// QUIET_CPU_NS. A machine that gets no processor looks quiet as well, and is frozen too. After
// QUIET_WAIT_MS the machine is frozen in any case.
#define QUIET_LOOK_MS 40
#define QUIET_CPU_NS  (4 * 1000000) // between two samples
#define QUIET_LOOKS   3             // samples in a row
#define QUIET_WAIT_MS 5000

struct pool_member {
    struct operation op;
    struct sandbox *sb; // borrowed
    sandbox_cb cb;
    void *ctx;
    sandbox_cb claim_cb; // of the caller that claimed the member; NULL: none
    void *claim_ctx;
    struct guest_call *call;
    size_t step;          // of the warm-up, an index into STEPS
    int round;            // of the warm-up: all steps once are a round
    char *context;        // owned; id of the Python kernel's context that the warm-up uses
    struct deadline look; // until the next sample
    int quiet_looks;
    int64_t cpu_ns; // of the machine, at the last sample
    int64_t warm_ms;
    int64_t start_ms, ready_ms;
};

static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx);
static void warm(struct pool_member *p);
static void on_warm_answer(int status, const char *text, const struct err *e, void *ctx);
static void on_look(struct deadline *d);
static void on_stopped(struct machine *m, const struct err *e, void *ctx);
static bool on_exit_of_machine(struct operation *op, struct sandbox *sb, struct machine *m,
                               const char *reason);
static void cancel(struct operation *op, struct sandbox *sb);
static void on_gone(struct operation *op);

static void on_look_closed(struct deadline *d)
{
    struct pool_member *p = container_of(d, struct pool_member, look);
    free(p->context);
    free(p);
}

// Give back the slot. The sandbox is POOLED. e: why the member is not ready; NULL: it is.
static void finish(struct pool_member *p, const struct err *e)
{
    struct sandbox *sb = p->sb;
    operation_end(sb, &p->op);
    p->cb(e ? NULL : sb, e, p->ctx);
    deadline_close(&p->look, on_look_closed);
}

// ---- 1 to 3. bring-up
void pool__make(struct store *store, const struct known_template *template, sandbox_cb cb,
                void *ctx)
{
    struct sandbox *sb = sandbox_new(store, NULL);
    struct pool_member *p = xcalloc(1, sizeof *p);
    struct bringup_spec up = {.dir = BRINGUP_DIR_NEW,
                              .background = true,
                              .template_dir = xstrdup(template->dir),
                              .what = BRINGUP_INIT_ALL};
    *p = (struct pool_member){
        .op = {.cancel = cancel, .on_gone = on_gone, .on_exit = on_exit_of_machine},
        .sb = sb,
        .cb = cb,
        .ctx = ctx,
        .start_ms = clock_mono_ms()};
    deadline_init(&p->look, store->loop, on_look);
    sb->unclaimed = true;
    sb->template = xstrdup(template->name);
    sb->build = template->build ? xstrdup(template->build) : NULL;
    sb->facts = template->facts;
    operation_begin(sb, &p->op, OPERATION_POOL);
    struct err e = ERR_INIT;
    if (bringup_start(sb, &up, on_up, p, &e) < 0)
        operation_fail(sb, NULL, &e);
    bringup_spec_fini(&up);
}

// ---- claims, checked after each step
static bool hand_out_if_claimed(struct pool_member *p)
{
    if (!p->claim_cb)
        return false;
    struct sandbox *sb = p->sb;
    sandbox_cb cb = p->claim_cb;
    void *ctx = p->claim_ctx;
    sandbox_set_state(sb, SANDBOX_POOLED);
    finish(p, NULL);
    pool__hand_out(sb, cb, ctx);
    return true;
}

// The caller that has claimed the member gets the sandbox with another machine. Otherwise the
// member ends.
static void fail(struct pool_member *p, const char *doing, const struct err *e)
{
    struct sandbox *sb = p->sb;
    sandbox_cb cb = p->claim_cb;
    void *ctx = p->claim_ctx;
    if (!cb) {
        operation_fail(sb, doing, e);
        return;
    }
    deadline_disarm(&p->look);
    sandbox_set_state(sb, SANDBOX_POOLED);
    finish(p, e);
    pool__hand_out_other(sb, e, cb, ctx);
}

// A machine that is brought up is bringup_on_exit's. Before a claim, nobody knows the member.
static bool on_exit_of_machine(struct operation *op, struct sandbox *sb, struct machine *m,
                               const char *reason)
{
    struct pool_member *p = container_of(op, struct pool_member, op);
    struct err e = ERR_INIT;
    if (sb->bringup || !p->claim_cb || m != sb->machine)
        return false;
    if (p->call)
        guest_call_cancel(steal(&p->call));
    ending_log_tails(sb);
    err_set(&e, ERR_UNAVAILABLE, "the machine ended: %s", reason);
    fail(p, NULL, &e);
    return true;
}

void pool__claim(struct sandbox *sb, sandbox_cb cb, void *ctx)
{
    struct pool_member *p = container_of(sb->op, struct pool_member, op);
    assert(operation_ask(sb, OPERATION_HAND_OUT) == OPERATION_WAIT && !p->claim_cb);
    sb->unclaimed = false;
    p->op.kind = OPERATION_CREATE; // it is built for a caller now
    p->claim_cb = cb;
    p->claim_ctx = ctx;
    machine_set_background(sb->machine, false);
    if (deadline_is_armed(&p->look))
        deadline_arm(&p->look, 0);
}

static void on_up(struct sandbox *sb, int64_t ready_ms, const struct err *e, void *ctx)
{
    (void)sb;
    struct pool_member *p = ctx;
    p->ready_ms = ready_ms;
    if (e) {
        fail(p, NULL, e);
        return;
    }
    FAULT("pool.1");
    if (!hand_out_if_claimed(p))
        warm(p);
}

// ---- 4. warm-up
// The warm-up uses a context of its own and deletes it with all its state. The Python kernel then
// forks the process for the next context. CONTEXT stands for the context's id.
#define CONTEXT "$CONTEXT"
static const struct warm_step {
    int port;
    const char *method, *path, *body; // body: NULL: none
} STEPS[] = {
    {ENVD_PORT, "POST", "/process.Process/Start", // as a user's command is run
     "{\"process\": {\"cmd\": \"/bin/bash\", \"args\": [\"-l\", \"-c\", \"echo; exec "
     "/bin/true\"]}, "
     "\"stdin\": false}"},
    {KERNEL_PORT, "POST", "/contexts", "{\"language\": \"python\"}"},
    {KERNEL_PORT, "POST", "/execute", "{\"context_id\": \"" CONTEXT "\", \"code\": \"1+1\"}"},
    {KERNEL_PORT, "DELETE", "/contexts/" CONTEXT, NULL},
};
#define STEP_CONTEXT 1

static size_t step_count(const struct pool_member *p)
{
    return p->sb->facts.python ? ARRAY_LEN(STEPS) : STEP_CONTEXT;
}

static bool is_warm(struct pool_member *p)
{
    if (p->step == step_count(p)) {
        p->step = 0;
        p->round++;
    }
    return p->round == WARM_ROUNDS;
}

static void warm(struct pool_member *p)
{
    if (is_warm(p)) {
        p->warm_ms = clock_mono_ms();
        deadline_arm(&p->look, QUIET_LOOK_MS);
        return;
    }
    const struct warm_step *step = &STEPS[p->step];
    const char *context = p->context ? p->context : "";
    char *path auto_free = str_replace(step->path, CONTEXT, context);
    char *text auto_free = step->body ? str_replace(step->body, CONTEXT, context) : NULL;
    bool streams = step->port == ENVD_PORT;
    struct buf body auto_buf = BUF_INIT;
    if (text && streams)
        connect_envelope(&body, 0, text, strlen(text));
    else if (text)
        buf_adds(&body, text);
    const struct guest_request request = {.port = step->port,
                                          .method = step->method,
                                          .path = path,
                                          .type =
                                              streams ? CONNECT_STREAM_TYPE : "application/json",
                                          .body = body.len ? body.data : NULL,
                                          .len = body.len,
                                          .timeout_ms = WARM_WAIT_MS};
    p->call = guest_call_send(p->sb, &request, on_warm_answer, p);
}

static int take_context(struct pool_member *p, const char *text, struct err *e)
{
    json_t *json = json_parse(text, strlen(text), e);
    const char *id = json_string_value(json_object_get(json, "id"));
    bool fits = id && strlen(id) < 64 && !strpbrk(id, "/ \r\n\"\\");
    if (fits) {
        free(p->context);
        p->context = xstrdup(id);
    }
    json_decref(json);
    return fits ? 0 : err_set(e, ERR_INTERNAL, "the Python kernel's answer has no context id");
}

static void on_warm_answer(int status, const char *text, const struct err *e, void *ctx)
{
    struct pool_member *p = ctx;
    struct err failed = e ? *e : ERR_INIT;
    p->call = NULL;
    if (!e && status / 100 != 2)
        err_set(&failed, ERR_INTERNAL, "the guest answered with status %d: %.200s", status, text);
    else if (!e && p->step == STEP_CONTEXT)
        take_context(p, text, &failed);
    if (err_is(&failed)) {
        err_wrap(&failed, "warm-up step %zu", p->step + 1);
        fail(p, NULL, &failed);
        return;
    }
    p->step++;
    // Do not stop between creating the context and deleting it: the user must not find it.
    bool between = p->step > STEP_CONTEXT && p->step < step_count(p);
    if (between || !hand_out_if_claimed(p))
        warm(p);
}

// ---- 5 and 6. quiet, freeze and record
static bool is_quiet(struct pool_member *p)
{
    struct machine_usage now = {0};
    struct err e = ERR_INIT;
    if (machine_usage(p->sb->machine, &now, &e) < 0)
        return true; // machine_pause will report the error
    bool quiet = now.cpu_ns - p->cpu_ns < QUIET_CPU_NS;
    p->cpu_ns = now.cpu_ns;
    p->quiet_looks = quiet ? p->quiet_looks + 1 : 0;
    return p->quiet_looks == QUIET_LOOKS || clock_mono_ms() - p->warm_ms > QUIET_WAIT_MS;
}

static void on_look(struct deadline *d)
{
    struct pool_member *p = container_of(d, struct pool_member, look);
    if (hand_out_if_claimed(p))
        return;
    if (is_quiet(p))
        machine_pause(p->sb->machine, on_stopped, p);
    else
        deadline_arm(&p->look, QUIET_LOOK_MS);
}

static void on_stopped(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pool_member *p = ctx;
    struct sandbox *sb = p->sb;
    if (err_is(&p->op.err))
        return; // the member is being ended
    if (e) {
        fail(p, "freeze the machine", e);
        return;
    }
    if (hand_out_if_claimed(p))
        return;
    FAULT("pool.2");
    sandbox_set_state(sb, SANDBOX_POOLED);
    struct err unwritten = ERR_INIT;
    if (record_write(sb, &unwritten) < 0) {
        operation_fail(sb, NULL, &unwritten);
        return;
    }
    FAULT("pool.3");
    int64_t now = clock_mono_ms();
    log_info("pool.ready", "id=%s template=%s ms=%lld machine_ms=%lld quiet_ms=%lld", sb->id,
             sb->template, (long long)(now - p->start_ms), (long long)(p->ready_ms - p->start_ms),
             (long long)(now - p->warm_ms));
    finish(p, NULL);
}

// ---- failure
static void cancel(struct operation *op, struct sandbox *sb)
{
    (void)sb;
    struct pool_member *p = container_of(op, struct pool_member, op);
    if (p->call)
        guest_call_cancel(steal(&p->call));
    deadline_disarm(&p->look);
}

static void on_gone(struct operation *op)
{
    struct pool_member *p = container_of(op, struct pool_member, op);
    p->cb(NULL, &op->err, p->ctx);
    if (p->claim_cb)
        p->claim_cb(NULL, &op->err, p->claim_ctx);
    deadline_close(&p->look, on_look_closed);
}
