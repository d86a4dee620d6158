// SPDX-License-Identifier: Apache-2.0
// One sandbox of the pool, from nothing to "ready to be handed out".
#include "sandbox-backend/daemon/pooled.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/guest_init.h"
#include "sandbox-backend/daemon/handout.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define WARM_WAIT_MS 60000 // for each step; the background may have to wait for others
#define WARM_ROUNDS  2     // with one the hand-out took 9 to 47 ms under TCG, with more 8 to 22

// What it has begun by itself, as making the kernel's next process ready, would go on beside its
// user's first command. One that is never quiet is stopped all the same, and so is one that has no
// processor now.
#define QUIET_LOOK_MS 40
#define QUIET_CPU_NS  (4 * 1000000) // between two looks
#define QUIET_LOOKS   3             // one after another
#define QUIET_WAIT_MS 5000

struct pooled {
    struct sandbox *sb; // borrowed
    pooled_cb cb;       // NULL once called
    void *ctx;
    struct machine *starting; // borrowed, for machine_abandon; NULL unless the driver is at it
    create_cb claim_cb;       // of who wants it before it is ready
    void *claim_ctx;
    struct guest_init *init;
    struct guest_call *call;
    size_t step;          // of the warm-up
    int round;            // of all its steps
    char *context;        // owned; of the kernel, while it is warmed
    struct deadline look; // whether it is quiet
    int quiet_looks;
    int64_t cpu_ns; // that it had used at the last one
    int64_t warm_ms;
    struct err err; // why it is ended; nothing goes on once it is set
    int64_t start_ms, machine_ms;
};

static void on_machine_ready(struct machine *m, const struct err *e, void *ctx);
static void on_init_answer(int status, const char *text, size_t len, const struct err *e,
                           void *ctx);
static void warm(struct pooled *p);
static void on_warm_answer(int status, const char *text, size_t len, const struct err *e,
                           void *ctx);
static void on_look(struct deadline *d);
static void on_stopped(struct machine *m, const struct err *e, void *ctx);
static void fail(struct pooled *p);
static void on_cleaned(void *ctx);

static struct pooled *pooled_new(struct sandbox *sb, pooled_cb cb, void *ctx)
{
    struct pooled *p = xcalloc(1, sizeof *p);
    *p = (struct pooled){.sb = sb, .cb = cb, .ctx = ctx, .start_ms = clock_mono_ms()};
    deadline_init(&p->look, sb->store->loop, on_look);
    sb->pooled = p;
    return p;
}

static void on_look_closed(struct deadline *d)
{
    struct pooled *p = container_of(d, struct pooled, look);
    free(p->context);
    free(p);
}

static void pooled_free(struct pooled *p)
{
    deadline_close(&p->look, on_look_closed);
}

static void tell(struct pooled *p, const struct err *e)
{
    pooled_cb cb = p->cb;
    p->cb = NULL;
    if (cb)
        cb(e ? NULL : p->sb, e, p->ctx);
}

// ---- 1 and 2
struct sandbox *pooled_make(struct store *store, const struct known_template *template,
                            pooled_cb cb, void *ctx)
{
    struct sandbox *sb = sandbox_new(store, NULL);
    struct pooled *p = pooled_new(sb, cb, ctx);
    sb->template = xstrdup(template->name);
    sb->build = template->build ? xstrdup(template->build) : NULL;
    sb->facts = template->facts;
    if (mkdir(sb->dir, 0700) < 0) {
        err_sys(&p->err, errno, "make the directory %s", sb->dir);
        fail(p);
        return sb;
    }
    FAULT("pool.1");
    struct machine_spec machine = sandbox_machine_spec(sb, template->dir);
    machine.background = true;
    p->starting =
        store->driver->create(store->loop, &machine, on_machine_ready, ending_on_exit, sb);
    return sb;
}

static void on_machine_ready(struct machine *m, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct pooled *p = sb->pooled;
    p->starting = NULL;
    sb->machine = m;
    p->machine_ms = clock_mono_ms();
    FAULT("pool.2");
    if (!m && !err_is(&p->err)) {
        p->err = *e;
        err_wrap(&p->err, "start the machine");
    }
    if (err_is(&p->err)) {
        fail(p);
        return;
    }
    if (p->claim_cb)
        machine_set_background(m, false);
    p->init = guest_init_start(sb, NULL, on_init_answer, p);
}

void pooled_on_exit(struct sandbox *sb, const char *reason)
{
    struct pooled *p = sb->pooled;
    if (err_is(&p->err))
        return;
    ending_log_tails(sb);
    err_set(&p->err, ERR_UNAVAILABLE, "the machine ended: %s", reason);
    if (!p->cb)
        log_warn("pool.lost", "id=%s error=\"%s\"", sb->id, p->err.msg);
    fail(p);
}

// ---- after each step: somebody may want it
static bool is_claimed(struct pooled *p)
{
    if (!p->claim_cb)
        return false;
    struct sandbox *sb = p->sb;
    create_cb cb = p->claim_cb;
    void *ctx = p->claim_ctx;
    tell(p, NULL);
    sandbox_set_state(sb, SANDBOX_POOLED);
    handout_start(sb, cb, ctx); // takes p away
    return true;
}

void pooled_claim(struct sandbox *sb, create_cb cb, void *ctx)
{
    struct pooled *p = sb->pooled;
    assert(sb->state == SANDBOX_CREATING && !p->claim_cb);
    p->claim_cb = cb;
    p->claim_ctx = ctx;
    if (sb->machine)
        machine_set_background(sb->machine, false);
    if (deadline_is_armed(&p->look))
        deadline_arm(&p->look, 0);
}

// ---- 3
static void on_init_answer(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct pooled *p = ctx;
    p->init = NULL;
    if (guest_init_check(status, text, e, &p->err) < 0)
        fail(p);
    else if (!is_claimed(p))
        warm(p);
}

// ---- 4
struct warm_step {
    int port;
    const char *method;
    void (*path)(const struct pooled *p, char out[96]);
    json_t *(*body)(const struct pooled *p); // NULL: none
};

static void path_start(const struct pooled *p, char out[96])
{
    (void)p;
    snprintf(out, 96, "/process.Process/Start");
}

// As a user's command is run.
static json_t *body_start(const struct pooled *p)
{
    (void)p;
    return json_pack("{s:{s:s, s:[s, s, s]}, s:b}", "process", "cmd", "/bin/bash", "args", "-l",
                     "-c", "echo; exec /bin/true", "stdin", 0);
}

static void path_contexts(const struct pooled *p, char out[96])
{
    (void)p;
    snprintf(out, 96, "/contexts");
}

static json_t *body_contexts(const struct pooled *p)
{
    (void)p;
    return json_pack("{s:s}", "language", "python");
}

static void path_execute(const struct pooled *p, char out[96])
{
    (void)p;
    snprintf(out, 96, "/execute");
}

static json_t *body_execute(const struct pooled *p)
{
    return json_pack("{s:s, s:s}", "context_id", p->context, "code", "1+1");
}

static void path_delete(const struct pooled *p, char out[96])
{
    snprintf(out, 96, "/contexts/%s", p->context);
}

// A context of its own, which goes with all it has; the kernel then makes a new process ready.
static const struct warm_step STEPS[] = {
    {ENVD_PORT, "POST", path_start, body_start},
    {KERNEL_PORT, "POST", path_contexts, body_contexts},
    {KERNEL_PORT, "POST", path_execute, body_execute},
    {KERNEL_PORT, "DELETE", path_delete, NULL},
};
#define STEP_CONTEXT 1

static size_t step_count(const struct pooled *p)
{
    return p->sb->facts.python ? ARRAY_LEN(STEPS) : STEP_CONTEXT;
}

static bool is_warm(struct pooled *p)
{
    if (p->step == step_count(p)) {
        p->step = 0;
        p->round++;
    }
    return p->round == WARM_ROUNDS;
}

static void warm(struct pooled *p)
{
    if (is_warm(p)) {
        p->warm_ms = clock_mono_ms();
        deadline_arm(&p->look, QUIET_LOOK_MS);
        return;
    }
    const struct warm_step *step = &STEPS[p->step];
    struct buf body auto_buf = BUF_INIT;
    char path[96];
    json_t *json = step->body ? step->body(p) : NULL;
    bool streams = step->port == ENVD_PORT;
    step->path(p, path);
    if (streams)
        connect_envelope_json(&body, json);
    else if (json)
        json_to_buf(&body, json);
    json_decref(json);
    const struct guest_request request = {.port = step->port,
                                          .method = step->method,
                                          .path = path,
                                          .type =
                                              streams ? CONNECT_STREAM_TYPE : "application/json",
                                          .body = body.len ? body.data : NULL,
                                          .len = body.len};
    p->call = guest_call_send(p->sb, &request, WARM_WAIT_MS, on_warm_answer, p);
}

static int take_context(struct pooled *p, const char *text, size_t len, struct err *e)
{
    json_t *json = json_parse(text, len, e);
    const char *id = json_string_value(json_object_get(json, "id"));
    bool fits = id && strlen(id) < 64 && !strpbrk(id, "/ \r\n");
    if (fits) {
        free(p->context);
        p->context = xstrdup(id);
    }
    json_decref(json);
    return fits ? 0 : err_set(e, ERR_INTERNAL, "the kernel named no context");
}

static void on_warm_answer(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    struct pooled *p = ctx;
    p->call = NULL;
    if (e)
        p->err = *e;
    else if (status / 100 != 2)
        err_set(&p->err, ERR_INTERNAL, "it was answered with %d: %.200s", status, text);
    else if (p->step == STEP_CONTEXT)
        take_context(p, text, len, &p->err);
    if (err_is(&p->err)) {
        err_wrap(&p->err, "warm it up, step %zu", p->step + 1);
        fail(p);
        return;
    }
    p->step++;
    // A context of ours must not stay for its user to find.
    bool between = p->step > STEP_CONTEXT && p->step < step_count(p);
    if (between || !is_claimed(p))
        warm(p);
}

// ---- 5 and 6
static bool is_quiet(struct pooled *p)
{
    struct machine_usage now = {0};
    struct err e = ERR_INIT;
    if (machine_usage(p->sb->machine, &now, &e) < 0)
        return true; // stopping it says what is wrong
    bool quiet = now.cpu_ns - p->cpu_ns < QUIET_CPU_NS;
    p->cpu_ns = now.cpu_ns;
    p->quiet_looks = quiet ? p->quiet_looks + 1 : 0;
    return p->quiet_looks == QUIET_LOOKS || clock_mono_ms() - p->warm_ms > QUIET_WAIT_MS;
}

static void on_look(struct deadline *d)
{
    struct pooled *p = container_of(d, struct pooled, look);
    if (err_is(&p->err) || is_claimed(p))
        return;
    if (is_quiet(p))
        machine_pause(p->sb->machine, on_stopped, p);
    else
        deadline_arm(&p->look, QUIET_LOOK_MS);
}

static void on_stopped(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct pooled *p = ctx;
    struct sandbox *sb = p->sb;
    if (err_is(&p->err))
        return; // it is being ended
    if (e) {
        p->err = *e;
        err_wrap(&p->err, "stop it");
        fail(p);
        return;
    }
    if (is_claimed(p))
        return;
    FAULT("pool.3");
    sandbox_set_state(sb, SANDBOX_POOLED);
    if (record_write(sb, &p->err) < 0) {
        fail(p);
        return;
    }
    FAULT("pool.4");
    int64_t now = clock_mono_ms();
    log_info("pool.ready", "id=%s template=%s ms=%lld machine_ms=%lld quiet_ms=%lld", sb->id,
             sb->template, (long long)(now - p->start_ms), (long long)(p->machine_ms - p->start_ms),
             (long long)(now - p->warm_ms));
    tell(p, NULL);
}

// ---- its life in the pool
void pooled_adopt(struct sandbox *sb)
{
    pooled_new(sb, NULL, NULL);
    sandbox_set_state(sb, SANDBOX_POOLED);
    machine_set_background(sb->machine, true);
}

bool pooled_is(const struct sandbox *sb)
{
    return sb->pooled && !sb->pooled->claim_cb;
}

void pooled_leave(struct sandbox *sb)
{
    assert(sb->state == SANDBOX_POOLED);
    pooled_free(steal(&sb->pooled));
}

// ---- its end
void pooled_end(struct sandbox *sb, const char *why)
{
    struct pooled *p = sb->pooled;
    if (err_is(&p->err))
        return;
    err_set(&p->err, ERR_CANCELED, "it was given up: %s", why);
    if (p->starting) // then on_machine_ready comes
        machine_abandon(p->starting);
    else if (sb->machine)
        fail(p);
}

void pooled_release(struct sandbox *sb)
{
    err_set(&sb->pooled->err, ERR_CANCELED, "the daemon goes");
    sb->on_ended = on_cleaned;
    sb->on_ended_ctx = sb->pooled;
    ending_release(sb);
}

static void fail(struct pooled *p)
{
    struct sandbox *sb = p->sb;
    if (p->init)
        guest_init_cancel(steal(&p->init));
    if (p->call)
        guest_call_cancel(steal(&p->call));
    sb->forget = true;
    sb->on_ended = on_cleaned;
    sb->on_ended_ctx = p;
    ending_start(sb, ENDED_DIED, p->err.msg);
}

static void on_cleaned(void *ctx)
{
    struct pooled *p = ctx;
    tell(p, &p->err);
    if (p->claim_cb)
        p->claim_cb(NULL, &p->err, p->claim_ctx);
    pooled_free(p);
}
