// SPDX-License-Identifier: Apache-2.0
// POST /init: what makes a guest the sandbox that it is.
#include "sandbox-backend/daemon/guest_init.h"

#include <stdlib.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/secrets.h"
#include "sandbox-backend/log/log.h"

#define ENTROPY_BYTES 64

// A clock that is told is late by the time until it was taken, which a guest that runs its code for
// the first time, or on a busy host, makes long: it is told again, what it has run by then. So it
// is right within this, unless it takes as long each time.
#define CLOCK_LATE_MS  40
#define CLOCK_TOLD_MAX 3 // times

enum what { WHAT_ALL, WHAT_ALL_OF_IMAGE, WHAT_CLOCK };

struct guest_init {
    struct sandbox *sb; // borrowed
    enum what what;
    json_t *env; // owned; may be NULL
    guest_call_cb cb;
    void *ctx;
    struct guest_call *call;
    int64_t told_ms; // last
    int told;        // times
};

static void on_answer(int status, const char *text, size_t len, const struct err *e, void *ctx);

// The variables that say where a program runs win over the user's.
static json_t *variables(const struct sandbox *sb, json_t *env)
{
    json_t *all = env ? json_copy(env) : json_object();
    secrets_environment(sb->secrets, all);
    json_object_set_new(all, "E2B_SANDBOX", json_string("true"));
    json_object_set_new(all, "E2B_SANDBOX_ID", json_string(sb->id));
    json_object_set_new(all, "E2B_TEMPLATE_ID",
                        json_string(sb->snapshot ? sb->snapshot : sb->template));
    return all;
}

// The token as well as the time: one without takes it away.
static json_t *clock_and_token(const struct sandbox *sb)
{
    char now[CLOCK_RFC3339_BYTES];
    clock_rfc3339(now, clock_wall_ns());
    return json_pack("{s:s, s:s*}", "timestamp", now, "accessToken", sb->token);
}

static void add_entropy(json_t *body)
{
    unsigned char entropy[ENTROPY_BYTES];
    struct buf coded auto_buf = BUF_INIT;
    random_bytes(entropy, sizeof entropy);
    base64_encode(&coded, entropy, sizeof entropy);
    json_object_set_new(body, "entropy", json_string(buf_str(&coded)));
}

static char *body_of(const struct guest_init *g)
{
    const struct sandbox *sb = g->sb;
    json_t *body = clock_and_token(sb);
    if (g->what != WHAT_CLOCK || sb->image)
        add_entropy(body);
    if (g->what != WHAT_CLOCK) {
        json_object_set_new(body, "envVars", variables(sb, g->env));
        json_object_set_new(body, "hostname", json_string(sb->id));
        json_object_set_new(body, "defaultUser", json_string("user"));
    }
    if (g->what == WHAT_ALL_OF_IMAGE)
        json_object_set_new(body, "inheritEnvVars", json_true());
    // One that the image trusts is another sandbox's.
    if (g->what == WHAT_ALL_OF_IMAGE || (g->what == WHAT_ALL && sb->secrets))
        json_object_set_new(body, "caBundle", json_string(secrets_certificate(sb->secrets)));
    if (g->what != WHAT_CLOCK && sb->size.disk_mb) // one that is that large already stays as it is
        json_object_set_new(body, "diskSizeMB", json_integer(sb->size.disk_mb));
    char *text = json_to_string(body);
    json_decref(body);
    return text;
}

static void tell(struct guest_init *g, const char *token)
{
    char *body auto_free = body_of(g);
    // One of the pool's runs in the background, on what others leave.
    uint64_t wait_ms = g->sb->pooled ? 3 * GUEST_INIT_MS : GUEST_INIT_MS;
    g->told++;
    g->told_ms = clock_mono_ms();
    g->call = guest_call_start_as(g->sb, token, "POST", "/init", body, wait_ms, on_answer, g);
}

static struct guest_init *start(struct sandbox *sb, enum what what, const char *token, json_t *env,
                                guest_call_cb cb, void *ctx)
{
    struct guest_init *g = xcalloc(1, sizeof *g);
    *g = (struct guest_init){.sb = sb, .what = what, .cb = cb, .ctx = ctx, .env = json_incref(env)};
    tell(g, token);
    return g;
}

struct guest_init *guest_init_start(struct sandbox *sb, json_t *env, guest_call_cb cb, void *ctx)
{
    return start(sb, WHAT_ALL, sb->token, env, cb, ctx);
}

struct guest_init *guest_init_start_image(struct sandbox *sb, const char *old_token, json_t *env,
                                          guest_call_cb cb, void *ctx)
{
    return start(sb, WHAT_ALL_OF_IMAGE, old_token, env, cb, ctx);
}

struct guest_init *guest_init_start_clock(struct sandbox *sb, guest_call_cb cb, void *ctx)
{
    return start(sb, WHAT_CLOCK, sb->token, NULL, cb, ctx);
}

void guest_init_cancel(struct guest_init *g)
{
    guest_call_cancel(g->call);
    json_decref(g->env);
    free(g);
}

static bool is_late(const struct guest_init *g)
{
    return clock_mono_ms() - g->told_ms > CLOCK_LATE_MS && g->told < CLOCK_TOLD_MAX;
}

// The first one decides: a guest that did not take the time once more has all the rest.
static void on_answer(int status, const char *text, size_t len, const struct err *e, void *ctx)
{
    struct guest_init *g = ctx;
    bool took = !e && status == 204;
    if (took && is_late(g)) {
        tell(g, g->sb->token);
        return;
    }
    struct guest_init all = *g;
    free(g);
    if (!took && all.told > 1)
        log_warn("sandbox.clock", "id=%s told=%d status=%d error=\"%s\"", all.sb->id, all.told,
                 status, e ? e->msg : text);
    if (all.told > 1)
        all.cb(204, "", 0, NULL, all.ctx);
    else
        all.cb(status, text, len, e, all.ctx);
    json_decref(all.env);
}

int guest_init_check(int status, const char *text, const struct err *e, struct err *out)
{
    if (e) {
        *out = *e;
        return err_wrap(out, "initialise envd");
    }
    if (status == 204)
        return 0;
    return err_set(out, ERR_INTERNAL, "envd answered /init with %d: %.200s", status, text);
}
