// SPDX-License-Identifier: Apache-2.0
// Making a sandbox, from "is there room" to "envd has taken its settings".
#include "sandbox-backend/daemon/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/guest_init.h"
#include "sandbox-backend/daemon/pool.h"
#include "sandbox-backend/daemon/pooled.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/secrets.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

struct creation {
    struct sandbox *sb; // borrowed
    create_cb cb;
    void *ctx;
    struct machine *starting; // borrowed, for machine_abandon; NULL unless the driver is at it
    json_t *env;              // owned; may be NULL
    char *template_dir;       // owned
    char *image;              // owned; NULL: the template as it is
    char *old_token;          // owned; that envd in the image has; NULL: none
    struct guest_init *init;  // POST /init
    struct err err;           // why it failed; nothing goes on once it is set
    bool from_image;          // of another sandbox, whose settings envd still has
    int64_t start_ms, machine_ms;
};

static void begin(struct creation *c);
static void on_admitted(struct sandbox *sb, const struct err *e, void *ctx);
static void on_machine_ready(struct machine *m, const struct err *e, void *ctx);
static void on_machine_exit(struct machine *m, const char *reason, void *ctx);
static void on_init_answer(int status, const char *text, size_t len, const struct err *e,
                           void *ctx);
static void finish(struct creation *c);
static void fail(struct creation *c);
static void on_cleaned(void *ctx);

void create_identify(struct sandbox *sb, const struct create_spec *spec)
{
    sb->token = spec->secure ? random_hex(32) : NULL;
    sb->traffic_token = spec->traffic_needs_token ? random_hex(32) : NULL;
    sb->owner = spec->owner ? xstrdup(spec->owner) : NULL;
    sb->mask_request_host = spec->mask_request_host ? xstrdup(spec->mask_request_host) : NULL;
    sb->secrets = json_incref(spec->secrets);
    sb->auto_pause = spec->auto_pause;
    sb->auto_resume = spec->auto_resume;
    net_policy_fini(&sb->policy); // a pooled one's, as its record has it
    net_policy_copy(&sb->policy, &spec->policy);
    sb->sliding = spec->sliding;
    sb->idle.policy = spec->idle;
    sb->timeout_ms = spec->timeout_s * 1000;
    if (spec->metadata)
        json_object_update(sb->metadata, spec->metadata);
}

static struct sandbox *sandbox_of(struct store *store, const struct create_spec *spec)
{
    struct sandbox *sb = sandbox_new(store, NULL);
    sb->template = xstrdup(spec->template.name);
    sb->snapshot = spec->template.snapshot ? xstrdup(spec->template.snapshot) : NULL;
    sb->build = spec->template.build ? xstrdup(spec->template.build) : NULL;
    sb->facts = spec->template.facts;
    sb->size = spec->template.size;
    sb->booted = !spec->template.image && (sb->size.cpus || sb->size.memory_mb);
    create_identify(sb, spec);
    return sb;
}

void create_spec_fini(struct create_spec *spec)
{
    templates_fini(&spec->template);
    net_policy_fini(&spec->policy);
    json_decref(spec->secrets);
}

// 1.
int create_start(struct store *store, const struct create_spec *spec, create_cb cb, void *ctx,
                 struct sandbox **out, struct err *e)
{
    if (admission_check(store, spec, e) < 0)
        return -1;
    *out = admission_has_place(store) ? pool_take(store, spec, cb, ctx) : NULL;
    if (*out)
        return 0;
    struct sandbox *sb = sandbox_of(store, spec);
    struct creation *c = xcalloc(1, sizeof *c);
    *c = (struct creation){.sb = sb, .cb = cb, .ctx = ctx, .start_ms = clock_mono_ms()};
    c->env = json_incref(spec->env);
    c->old_token = spec->template.token ? xstrdup(spec->template.token) : NULL;
    c->template_dir = xstrdup(spec->template.dir);
    c->image = spec->template.image ? xstrdup(spec->template.image) : NULL;
    c->from_image = c->image != NULL;
    sb->creation = c;
    *out = sb;
    switch (admission_enter(sb, false, on_admitted, c, &c->err)) {
    case ADMISSION_NOW:
        begin(c);
        break;
    case ADMISSION_REFUSED:
        fail(c);
        break;
    case ADMISSION_WAITS:
        break;
    }
    return 0;
}

static void on_admitted(struct sandbox *sb, const struct err *e, void *ctx)
{
    (void)sb;
    struct creation *c = ctx;
    if (!e) {
        begin(c);
        return;
    }
    c->err = *e;
    fail(c);
}

// 2 and 3.
static void begin(struct creation *c)
{
    struct sandbox *sb = c->sb;
    struct store *store = sb->store;
    if (mkdir(sb->dir, 0700) < 0) {
        err_sys(&c->err, errno, "make the directory %s", sb->dir);
        fail(c);
        return;
    }
    FAULT("create.1");
    struct machine_spec machine = sandbox_machine_spec(sb, c->template_dir);
    machine.image = c->image;
    char *egress;
    if (sandbox_egress(sb, &egress, &c->err) < 0) {
        fail(c);
        return;
    }
    machine.egress = egress;
    c->starting =
        store->driver->create(store->loop, &machine, on_machine_ready, on_machine_exit, sb);
    secrets_wipe(&egress);
}

void create_abandon(struct sandbox *sb, const char *why)
{
    struct creation *c = sb->creation;
    if (sb->pooled)
        pooled_end(sb, why);
    if (!c || err_is(&c->err))
        return;
    err_set(&c->err, ERR_CANCELED, "creation was given up: %s", why);
    bool waits = sb->ticket;
    waiting_leave(sb);
    if (c->starting) // then on_machine_ready comes
        machine_abandon(c->starting);
    else if (waits || sb->machine)
        fail(c);
}

// 4.
static void on_machine_ready(struct machine *m, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct creation *c = sb->creation;
    c->starting = NULL;
    sb->machine = m;
    c->machine_ms = clock_mono_ms();
    if (!m && !err_is(&c->err)) {
        c->err = *e;
        err_wrap(&c->err, "start the machine");
    }
    if (err_is(&c->err)) {
        fail(c);
        return;
    }
    FAULT("create.2");
    c->init = c->from_image ? guest_init_start_image(sb, c->old_token, c->env, on_init_answer, c)
                            : guest_init_start(sb, c->env, on_init_answer, c);
}

static void on_machine_exit(struct machine *m, const char *reason, void *ctx)
{
    struct sandbox *sb = ctx;
    struct creation *c = sb->creation;
    if (!c) {
        ending_on_exit(m, reason, sb);
        return;
    }
    if (err_is(&c->err))
        return;
    ending_log_tails(sb);
    err_set(&c->err, ERR_UNAVAILABLE, "the machine ended while envd was awaited: %s", reason);
    fail(c);
}

static void on_init_answer(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    (void)len;
    struct creation *c = ctx;
    c->init = NULL;
    if (guest_init_check(status, text, e, &c->err) < 0)
        fail(c);
    else
        finish(c);
}

static void creation_free(struct creation *c)
{
    json_decref(c->env);
    free(c->template_dir);
    free(c->image);
    free(c->old_token);
    free(c);
}

// 5.
static void finish(struct creation *c)
{
    struct sandbox *sb = c->sb;
    FAULT("create.3");
    sandbox_set_end(sb, sb->timeout_ms);
    if (record_write(sb, &c->err) < 0) {
        fail(c);
        return;
    }
    FAULT("create.4");
    sandbox_set_state(sb, SANDBOX_RUNNING);
    expiry_plan(sb->store);
    pool_poke(sb->store);
    int64_t now = clock_mono_ms();
    log_info("sandbox.created", "id=%s template=%s ms=%lld machine_ms=%lld init_ms=%lld cold=%d",
             sb->id, sb->template, (long long)(now - c->start_ms),
             (long long)(c->machine_ms - c->start_ms), (long long)(now - c->machine_ms),
             sb->booted);
    journal_add(&sb->journal, JOURNAL_INFO, "created from template %s, in %lld ms%s", sb->template,
                (long long)(now - c->start_ms),
                sb->booted ? ": booted, its size is not its template's" : "");
    create_cb cb = c->cb;
    void *ctx = c->ctx;
    sb->creation = NULL;
    creation_free(c);
    cb(sb, NULL, ctx);
}

static void fail(struct creation *c)
{
    struct sandbox *sb = c->sb;
    if (c->init)
        guest_init_cancel(steal(&c->init));
    sb->forget = true;
    sb->on_ended = on_cleaned;
    sb->on_ended_ctx = c;
    ending_start(sb, ENDED_DIED, c->err.msg);
}

static void on_cleaned(void *ctx)
{
    struct creation *c = ctx;
    log_warn("sandbox.failed", "error=\"%s\" ms=%lld", c->err.msg,
             (long long)(clock_mono_ms() - c->start_ms));
    c->cb(NULL, &c->err, c->ctx);
    creation_free(c);
}
