// SPDX-License-Identifier: Apache-2.0
// Making a sandbox, from "is there room" to "envd has taken its settings".
#include "sandbox-backend/daemon/create.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/admission.h"
#include "sandbox-backend/daemon/ending.h"
#include "sandbox-backend/daemon/expiry.h"
#include "sandbox-backend/daemon/record.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/log/log.h"

#define INIT_WAIT_MS    20000 // from "the machine runs" to envd's answer
#define ENTROPY_BYTES   64
#define INIT_ERROR_SHOW 200

struct creation {
    struct sandbox *sb; // borrowed
    create_cb cb;
    void *ctx;
    json_t *env; // owned; may be NULL
    struct upstream_dial *dial;
    struct upstream_conn *conn;
    int status; // of /init's answer
    struct buf answer;
    struct err err;                           // why it failed; nothing goes on once it is set
    int64_t start_ms, machine_ms, connect_ms; // when each stage was over
};

static void on_machine_ready(struct machine *m, const struct err *e, void *ctx);
static void on_machine_exit(struct machine *m, const char *reason, void *ctx);
static void on_envd_connected(struct upstream_conn *conn, const struct err *e, void *ctx);
static void post_init(struct creation *c);
static void on_init_late(struct deadline *d);
static void finish(struct creation *c);
static void fail(struct creation *c);
static void on_cleaned(void *ctx);

static struct sandbox *sandbox_of(struct store *store, const struct create_spec *spec)
{
    struct sandbox *sb = sandbox_new(store, NULL);
    sb->template = xstrdup(spec->template.name);
    sb->facts = spec->template.facts;
    sb->token = spec->secure ? random_hex(32) : NULL;
    sb->network = spec->network;
    sb->sliding = spec->sliding;
    sb->timeout_ms = spec->timeout_s * 1000;
    if (spec->metadata)
        json_object_update(sb->metadata, spec->metadata);
    return sb;
}

// 1 to 3.
int create_start(struct store *store, const struct create_spec *spec, create_cb cb, void *ctx,
                 struct sandbox **out, struct err *e)
{
    if (admission_check(store, &spec->template.facts, e) < 0)
        return -1;
    struct sandbox *sb = sandbox_of(store, spec);
    struct creation *c = xcalloc(1, sizeof *c);
    *c = (struct creation){.sb = sb, .cb = cb, .ctx = ctx, .start_ms = clock_mono_ms()};
    c->env = json_incref(spec->env);
    sb->creation = c;
    *out = sb;
    if (mkdir(sb->dir, 0700) < 0) {
        err_sys(&c->err, errno, "make the directory %s", sb->dir);
        fail(c);
        return 0;
    }
    struct machine_spec machine = {
        .id = sb->id, .dir = sb->dir, .template = spec->template.dir, .network = spec->network};
    store->driver->create(store->loop, &machine, on_machine_ready, on_machine_exit, sb);
    return 0;
}

void create_abandon(struct sandbox *sb, const char *why)
{
    struct creation *c = sb->creation;
    if (!c || err_is(&c->err))
        return;
    err_set(&c->err, ERR_CANCELED, "creation was given up: %s", why);
    if (sb->machine) // else the driver is still at it, and is waited for
        fail(c);
}

// 4.
static void on_machine_ready(struct machine *m, const struct err *e, void *ctx)
{
    struct sandbox *sb = ctx;
    struct creation *c = sb->creation;
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
    sb->wait.on_expired = on_init_late;
    deadline_arm(&sb->wait, INIT_WAIT_MS);
    c->dial = upstream_dial(&sb->upstream, machine_vmnet(m), ENVD_PORT, INIT_WAIT_MS,
                            on_envd_connected, c);
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

static void on_envd_connected(struct upstream_conn *conn, const struct err *e, void *ctx)
{
    struct creation *c = ctx;
    c->dial = NULL;
    c->conn = conn;
    c->connect_ms = clock_mono_ms();
    if (conn) {
        post_init(c);
        return;
    }
    c->err = *e;
    err_wrap(&c->err, "connect to envd");
    fail(c);
}

// 5. The variables that say where a program runs win over the user's.
static json_t *init_env(const struct creation *c)
{
    json_t *env = c->env ? json_copy(c->env) : json_object();
    json_object_set_new(env, "E2B_SANDBOX", json_string("true"));
    json_object_set_new(env, "E2B_SANDBOX_ID", json_string(c->sb->id));
    json_object_set_new(env, "E2B_TEMPLATE_ID", json_string(c->sb->template));
    return env;
}

static char *init_body(const struct creation *c)
{
    unsigned char entropy[ENTROPY_BYTES];
    struct buf coded auto_buf = BUF_INIT;
    char now[CLOCK_RFC3339_BYTES];
    random_bytes(entropy, sizeof entropy);
    base64_encode(&coded, entropy, sizeof entropy);
    clock_rfc3339(now, clock_wall_ns());
    json_t *body = json_pack("{s:o, s:s, s:s, s:s, s:s, s:s*}", "envVars", init_env(c), "timestamp",
                             now, "hostname", c->sb->id, "entropy", buf_str(&coded), "defaultUser",
                             "user", "accessToken", c->sb->token);
    char *text = json_to_string(body);
    json_decref(body);
    return text;
}

static void on_init_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    (void)headers;
    (void)count;
    struct creation *c = ctx;
    c->status = status;
}

static void on_init_data(const char *data, size_t len, void *ctx)
{
    struct creation *c = ctx;
    if (c->answer.len < INIT_ERROR_SHOW)
        buf_add(&c->answer, data,
                len < INIT_ERROR_SHOW - c->answer.len ? len : INIT_ERROR_SHOW - c->answer.len);
}

static void on_init_end(const struct err *e, void *ctx)
{
    struct creation *c = ctx;
    if (err_is(&c->err)) { // it is being taken apart, and this call with it
        c->conn = NULL;
        return;
    }
    if (e) {
        c->conn = NULL; // closes by itself
        c->err = *e;
        err_wrap(&c->err, "initialise envd");
    } else if (c->status != 204) {
        err_set(&c->err, ERR_INTERNAL, "envd answered /init with %d: %s", c->status,
                buf_str(&c->answer));
    }
    if (err_is(&c->err))
        fail(c);
    else
        finish(c);
}

static void post_init(struct creation *c)
{
    static const struct http_conn_events EVENTS = {
        .on_head = on_init_head, .on_data = on_init_data, .on_end = on_init_end};
    static const struct http_header HEADERS[] = {{"Content-Type", "application/json"}};
    char *body auto_free = init_body(c);
    http_conn_call(c->conn->http, "POST", "/init", HEADERS, ARRAY_LEN(HEADERS),
                   (int64_t)strlen(body), &EVENTS, c);
    http_conn_write(c->conn->http, body, strlen(body));
    http_conn_finish(c->conn->http);
}

static void on_init_late(struct deadline *d)
{
    struct creation *c = container_of(d, struct sandbox, wait)->creation;
    if (err_is(&c->err))
        return;
    err_set(&c->err, ERR_TIMEOUT, "envd did not answer /init within %d s", INIT_WAIT_MS / 1000);
    fail(c);
}

static void creation_free(struct creation *c)
{
    json_decref(c->env);
    buf_fini(&c->answer);
    free(c);
}

// 6.
static void finish(struct creation *c)
{
    struct sandbox *sb = c->sb;
    sandbox_set_end(sb, sb->timeout_ms);
    if (record_write(sb, &c->err) < 0) {
        fail(c);
        return;
    }
    deadline_disarm(&sb->wait);
    sandbox_set_state(sb, SANDBOX_RUNNING);
    upstream_give(steal(&c->conn)); // the first command finds it open
    expiry_plan(sb->store);
    int64_t now = clock_mono_ms();
    log_info("sandbox.created",
             "id=%s template=%s ms=%lld machine_ms=%lld connect_ms=%lld init_ms=%lld", sb->id,
             sb->template, (long long)(now - c->start_ms), (long long)(c->machine_ms - c->start_ms),
             (long long)(c->connect_ms - c->machine_ms), (long long)(now - c->connect_ms));
    create_cb cb = c->cb;
    void *ctx = c->ctx;
    sb->creation = NULL;
    creation_free(c);
    cb(sb, NULL, ctx);
}

static void fail(struct creation *c)
{
    struct sandbox *sb = c->sb;
    if (c->dial)
        upstream_dial_cancel(steal(&c->dial));
    if (c->conn)
        upstream_drop(steal(&c->conn));
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
