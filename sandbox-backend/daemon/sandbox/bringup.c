// SPDX-License-Identifier: Apache-2.0
// Bring-up: the steps from a directory to a guest that has its settings.
#include "sandbox-backend/daemon/sandbox/bringup.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/ending.h"
#include "sandbox-backend/daemon/sandbox/files.h"
#include "sandbox-backend/daemon/sandbox/guest.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"
#include "sandbox-backend/daemon/sandbox/store.h"
#include "sandbox-backend/daemon/sandbox/templates.h"
#include "sandbox-backend/daemon/secrets/secrets.h"
#include "sandbox-backend/log/log.h"

#define ENTROPY_BYTES 64

// The time that the daemon sends is stale by the delay until the guest applies it. A guest that
// runs its code for the first time, or a busy host, can make that delay long. If the answer takes
// longer than CLOCK_LATE_MS, the daemon sends the time again, at most CLOCK_TOLD_MAX times in all.
// The guest's clock is then right within CLOCK_LATE_MS, unless each answer took longer.
#define CLOCK_LATE_MS  40
#define CLOCK_TOLD_MAX 3 // times

struct bringup {
    struct sandbox *sb;       // borrowed, held
    struct bringup_spec spec; // owned
    struct machine *starting; // borrowed, for machine_abandon; NULL unless the driver starts it now
    struct guest_call *init;  // POST /init, until it is answered
    int64_t told_ms;          // when /init was last sent
    int told;                 // how often it was sent
    bool owed;                // a thread or the driver owes a callback
    bool continues;           // bringup_continue: the machine existed before
    bool resumed;             // the machine was frozen and has been resumed
    bool cancelled;           // the sandbox is being ended
    bool spare_taken;         // the machine was made of a spare
    bool is_second;           // such a machine has failed, and this one is made without a spare
    int64_t ready_ms;
    struct err err;
    bringup_cb cb;
    void *ctx;
};

static void on_stripped(void *ctx);
static int make_machine(struct bringup *b);
static void on_ready(struct machine *m, const struct err *e, void *ctx);
static void on_resumed(struct machine *m, const struct err *e, void *ctx);
static void post_init(struct bringup *b, const char *token);
static void on_init(int status, const char *text, const struct err *e, void *ctx);
static void finish(struct bringup *b);
static void on_machine_gone(void *ctx);
static void on_stopped(struct machine *m, const struct err *e, void *ctx);
static void done(struct bringup *b);
static void start_again(struct bringup *b);

void bringup_spec_fini(struct bringup_spec *spec)
{
    free(spec->template_dir);
    free(spec->image);
    free(spec->token);
    json_decref(spec->env);
    *spec = (struct bringup_spec){0};
}

static struct bringup *bringup_new(struct sandbox *sb, bringup_cb cb, void *ctx)
{
    assert(!sb->bringup);
    struct bringup *b = xcalloc(1, sizeof *b);
    *b = (struct bringup){.sb = sb, .cb = cb, .ctx = ctx};
    sb->bringup = b;
    ending_hold(sb);
    return b;
}

static void bringup_free(struct bringup *b)
{
    struct sandbox *sb = b->sb;
    sb->bringup = NULL;
    bringup_spec_fini(&b->spec);
    free(b);
    ending_unhold(sb);
}

// Note that an owed callback has come. Return false if the sandbox is being ended: then the caller
// does nothing more.
static bool goes_on(struct bringup *b)
{
    bool cancelled = b->cancelled;
    b->owed = false;
    if (cancelled)
        bringup_free(b);
    return !cancelled;
}

// ---- 1. the directory
static void strip(struct bringup *b)
{
    b->owed = true;
    files_strip(b->sb, b->spec.dir != BRINGUP_DIR_DROP_IMAGE, on_stripped, b);
}

int bringup_start(struct sandbox *sb, struct bringup_spec *spec, bringup_cb cb, void *ctx,
                  struct err *e)
{
    struct bringup *b = bringup_new(sb, cb, ctx);
    b->spec = *spec;
    *spec = (struct bringup_spec){0};
    if (b->spec.dir != BRINGUP_DIR_NEW) {
        strip(b);
        return 0;
    }
    if (mkdir(sb->dir, 0700) < 0)
        err_sys(&b->err, errno, "make the directory %s", sb->dir);
    FAULT("bringup.1");
    if (!err_is(&b->err) && make_machine(b) == 0)
        return 0;
    *e = b->err;
    bringup_free(b);
    return -1;
}

static void on_stripped(void *ctx)
{
    struct bringup *b = ctx;
    if (!goes_on(b))
        return;
    FAULT("bringup.2");
    if (make_machine(b) < 0)
        finish(b);
}

// ---- 2 and 3. the machine
static int make_machine(struct bringup *b)
{
    struct sandbox *sb = b->sb;
    struct machine_spec spec = sandbox_machine_spec(sb, b->spec.template_dir);
    if (!sb->unclaimed) // a pool member is used when it is handed out
        templates_touch(sb->store, b->spec.template_dir);
    char *egress;
    if (sandbox_egress(sb, &egress, &b->err) < 0)
        return -1;
    spec.image = b->spec.image;
    spec.background = b->spec.background;
    spec.spare_taken = b->is_second ? NULL : &b->spare_taken;
    spec.egress.config = egress;
    b->owed = true;
    b->starting = sb->facts.driver->create(sb->store->loop, &spec, on_ready, ending_on_exit, sb);
    secrets_wipe(&egress);
    return 0;
}

// ---- 4. the machine is ready
static void on_late_gone(void *ctx)
{
    goes_on(ctx);
}

static void on_ready(struct machine *m, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct bringup *b = sb->bringup;
    b->starting = NULL;
    if (b->cancelled && m) {
        machine_kill(m, on_late_gone, b);
        return;
    }
    if (!goes_on(b))
        return;
    FAULT("bringup.3");
    sb->machine = m;
    sb->noted = (struct net_noted){0};
    if (!m) {
        b->err = *e;
        err_wrap(&b->err, "start the machine%s", b->spec.image ? " from its image" : "");
        finish(b);
        return;
    }
    b->ready_ms = clock_mono_ms();
    post_init(b, b->spec.what == BRINGUP_INIT_IMAGE ? b->spec.token : sb->token);
}

bool bringup_on_exit(struct sandbox *sb, const struct machine *m, const char *reason)
{
    struct bringup *b = sb->bringup;
    if (!b || b->continues || m != sb->machine)
        return false;
    if (b->init)
        guest_call_cancel(steal(&b->init));
    ending_log_tails(sb);
    err_set(&b->err, ERR_UNAVAILABLE, "the machine ended before envd answered: %s", reason);
    finish(b);
    return true;
}

// ---- 5 and 6. the guest
// The user's variables override the template's. The variables that tell a program where it runs
// override both.
static json_t *variables(const struct sandbox *sb, json_t *env, const json_t *template)
{
    const json_t *given = json_object_get(template, "variables");
    json_t *all = json_is_object(given) ? json_copy((json_t *)(uintptr_t)given) : json_object();
    if (env)
        json_object_update(all, env);
    secrets_environment(sb->secrets, all);
    json_object_set_new(all, "E2B_SANDBOX", json_string("true"));
    json_object_set_new(all, "E2B_SANDBOX_ID", json_string(sb->id));
    json_object_set_new(all, "E2B_TEMPLATE_ID",
                        json_string(sb->snapshot ? sb->snapshot : sb->template));
    return all;
}

static void add_entropy(json_t *body)
{
    unsigned char entropy[ENTROPY_BYTES];
    struct buf coded auto_buf = BUF_INIT;
    random_bytes(entropy, sizeof entropy);
    base64_encode(&coded, entropy, sizeof entropy);
    json_object_set_new(body, "entropy", json_string(buf_str(&coded)));
}

// Add the environment, and the user and directory of commands. A guest that goes on from an image
// has its template's already, or what a caller has put in their place.
static void add_environment(json_t *body, const struct bringup *b)
{
    const struct sandbox *sb = b->sb;
    bool image = b->spec.what == BRINGUP_INIT_IMAGE;
    json_t *template = sb->facts.driver->has_host_users
                           ? NULL
                           : templates_environment(sb->store, sb->template, sb->build);
    const char *user = json_string_value(json_object_get(template, "user"));
    const char *directory = json_string_value(json_object_get(template, "directory"));
    json_object_set_new(body, "envVars", variables(sb, b->spec.env, image ? NULL : template));
    if (!image || !template)
        json_object_set_new(body, "defaultUser", json_string(user ? user : "user"));
    if (!image && directory)
        json_object_set_new(body, "defaultWorkdir", json_string(directory));
    json_decref(template);
}

static char *body_of(const struct bringup *b)
{
    const struct sandbox *sb = b->sb;
    bool whole = b->spec.what != BRINGUP_INIT_CLOCK, image = b->spec.what == BRINGUP_INIT_IMAGE;
    char now[CLOCK_RFC3339_BYTES];
    clock_rfc3339(now, clock_wall_ns());
    // The token is always in the body, because envd drops its token for a body without one.
    json_t *body = json_pack("{s:s, s:s*}", "timestamp", now, "accessToken", sb->token);
    if (whole || sb->image)
        add_entropy(body);
    if (whole) {
        add_environment(body, b);
        json_object_set_new(body, "hostname", json_string(sb->id));
    }
    // A disk of at least this size stays as it is. The driver sizes a disk that is in memory.
    if (whole && sb->size.disk_mb && !sb->facts.driver->disk_in_memory)
        json_object_set_new(body, "diskSizeMB", json_integer(sb->size.disk_mb));
    if (image)
        json_object_set_new(body, "inheritEnvVars", json_true());
    // An authority that the image trusts belongs to another sandbox.
    if (image || (whole && sb->secrets))
        json_object_set_new(body, "caBundle", json_string(secrets_certificate(sb->secrets)));
    char *text = json_to_string(body);
    json_decref(body);
    return text;
}

static void post_init(struct bringup *b, const char *token)
{
    char *body auto_free = body_of(b);
    const struct guest_request request = {.port = ENVD_PORT,
                                          .method = "POST",
                                          .path = "/init",
                                          .token = token,
                                          .type = "application/json",
                                          .body = body,
                                          .len = strlen(body),
                                          .timeout_ms = b->spec.background ? 3 * BRINGUP_INIT_MS
                                                                           : BRINGUP_INIT_MS};
    b->told++;
    b->told_ms = clock_mono_ms();
    b->init = guest_call_send(b->sb, &request, on_init, b);
}

void bringup_continue(struct sandbox *sb, enum bringup_init what, json_t *env, bringup_cb cb,
                      void *ctx)
{
    struct bringup *b = bringup_new(sb, cb, ctx);
    b->continues = true;
    b->spec.what = what;
    b->spec.env = json_incref(env);
    b->ready_ms = clock_mono_ms();
    post_init(b, sb->token);
    if (!machine_is_paused(sb->machine))
        return;
    b->owed = b->resumed = true;
    machine_resume(sb->machine, on_resumed, b);
}

static void on_resumed(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct bringup *b = ctx;
    if (!goes_on(b))
        return;
    FAULT("bringup.4");
    if (e) {
        b->resumed = false;
        if (b->init)
            guest_call_cancel(steal(&b->init));
        err_set(&b->err, e->code, "the machine could not be resumed: %s", e->msg);
    }
    if (!b->init)
        finish(b);
}

static bool is_late(const struct bringup *b)
{
    return clock_mono_ms() - b->told_ms > CLOCK_LATE_MS && b->told < CLOCK_TOLD_MAX;
}

// The first answer decides. If only a later one fails, the guest has all settings, and just its
// clock may be late.
static void on_init(int status, const char *text, const struct err *e, void *ctx)
{
    struct bringup *b = ctx;
    bool took = !e && status == 204;
    b->init = NULL;
    if (took && is_late(b)) {
        post_init(b, b->sb->token);
        return;
    }
    FAULT("bringup.5");
    if (!took && b->told > 1) {
        log_warn("sandbox.clock", "id=%s told=%d status=%d error=\"%s\"", b->sb->id, b->told,
                 status, e ? e->msg : text);
    } else if (!took) {
        if (e)
            b->err = *e;
        err_wrap(&b->err, "initialise envd");
        err_set(&b->err, ERR_INTERNAL, "envd answered /init with HTTP status %d: %.200s", status,
                text);
        if (b->spec.what == BRINGUP_INIT_CLOCK)
            err_wrap(&b->err, "set the guest's clock");
    }
    if (!b->owed)
        finish(b);
}

// ---- 7. the end
static void finish(struct bringup *b)
{
    struct sandbox *sb = b->sb;
    bool failed = err_is(&b->err);
    b->owed = failed && (b->continues ? b->resumed : sb->machine != NULL);
    if (!b->owed) {
        done(b);
    } else if (b->continues) { // freeze it again: its clock may be wrong
        machine_pause(sb->machine, on_stopped, b);
    } else {
        usage_note_network(sb, USAGE_NOTE_LAST);
        upstream_forget(&sb->upstream);
        machine_kill(steal(&sb->machine), on_machine_gone, b);
    }
}

static void on_machine_gone(void *ctx)
{
    if (goes_on(ctx))
        done(ctx);
}

static void on_stopped(struct machine *m, const struct err *e, void *ctx)
{
    (void)m;
    struct bringup *b = ctx;
    if (!goes_on(b))
        return;
    if (e)
        log_error("sandbox.pause", "id=%s error=\"%s\"", b->sb->id, e->msg);
    done(b);
}

static bool falls_back(const struct bringup *b)
{
    return err_is(&b->err) && b->err.code != ERR_CANCELED && b->spare_taken && !b->is_second;
}

static void start_again(struct bringup *b)
{
    log_warn("sandbox.again", "id=%s a machine is made without a spare, because: %s", b->sb->id,
             b->err.msg);
    b->is_second = true;
    b->err = ERR_INIT;
    b->ready_ms = 0;
    b->told = 0;
    strip(b);
}

static void done(struct bringup *b)
{
    if (falls_back(b)) {
        start_again(b);
        return;
    }
    struct sandbox *sb = b->sb;
    struct err e = b->err;
    int64_t ready_ms = b->ready_ms;
    bringup_cb cb = b->cb;
    void *ctx = b->ctx;
    bringup_free(b);
    cb(sb, ready_ms, err_is(&e) ? &e : NULL, ctx);
}

// The driver has answered all requests to a machine that has ended.
void bringup_leave(struct sandbox *sb)
{
    struct bringup *b = sb->bringup;
    if (!b)
        return;
    assert(b->continues && !b->owed);
    if (b->init)
        guest_call_cancel(steal(&b->init));
    bringup_free(b);
}

void bringup_cancel(struct sandbox *sb)
{
    struct bringup *b = sb->bringup;
    if (!b)
        return;
    b->cancelled = true;
    if (b->init)
        guest_call_cancel(steal(&b->init));
    if (b->starting)
        machine_abandon(b->starting);
    if (!b->owed)
        bringup_free(b);
}
