// SPDX-License-Identifier: Apache-2.0
// POST /init: token, environment, default user and directory; and for a guest entropy, clock, name,
// and the size of its disk.
//
// Who may: anyone while no token is set; then whoever shows the token, in the body (which keeps it)
// or in X-Access-Token (which may set another, or none). A request whose timestamp is not newer
// than the last applied one is answered like any other and changes nothing: orchestrators repeat
// it. What E2B's hosts offer and ours do not (volumes, an events server) is refused when it is
// asked for. caBundle is trusted from then on (trust.h); "" takes away an earlier one. envVars
// replace the environment; with inheritEnvVars, which is ours, for a guest that goes on from
// another's state, what they do not name stays.
//
// What was frozen (freeze.h) goes on last, when nothing of another guest is left.
//
// What is published for other programs is there before the answer: whoever has it may start one.
// Only what changed is written, as making files costs an emulated guest more than all the rest.
#include "sandbox-backend/envd/init.h"

#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/envd/disk.h"
#include "sandbox-backend/envd/freeze.h"
#include "sandbox-backend/envd/machine.h"
#include "sandbox-backend/envd/pjson.h"
#include "sandbox-backend/envd/published.h"
#include "sandbox-backend/envd/trust.h"

#define DISK_MB_MAX (1 << 24)

struct init_request {
    const char *token;
    const char *user;
    const char *workdir;
    const char *hostname;
    const char *ca_bundle; // NULL: as it is
    json_t *envs;
    bool inherit;         // of the environment that is there
    int64_t timestamp_ns; // 0: absent
    int64_t disk_mb;      // 0: as it is
    struct buf entropy;
};

static int check_token(const char *token, struct err *e)
{
    if (token && (!*token || strchr(token, '\\') || strpbrk(token, "\r\n")))
        return err_set(e, ERR_INVALID, "accessToken must not be empty or hold a backslash");
    return 0;
}

static int refuse_unknown_wishes(const json_t *body, struct err *e)
{
    const char *text;
    const json_t *volumes = json_object_get(body, "volumeMounts");
    if (json_get_string(body, "lifecycleID", &text, NULL, e) < 0) // a name of E2B's logs
        return -1;
    if (json_get_string(body, "hyperloopIP", &text, NULL, e) < 0)
        return -1;
    if (text && *text)
        return err_set(e, ERR_INVALID, "hyperloopIP: this machine has no events server");
    if (volumes && !json_is_null(volumes) && !json_is_array(volumes))
        return err_set(e, ERR_INVALID, "volumeMounts must be an array");
    if (json_array_size(volumes))
        return err_set(e, ERR_INVALID, "volumeMounts cannot be mounted: this machine has no NFS");
    return 0;
}

static int parse(const json_t *body, struct init_request *r, struct err *e)
{
    const char *timestamp;
    bool has_entropy;
    if (!json_is_object(body))
        return err_set(e, ERR_INVALID, "the body must be a JSON object");
    if (json_get_string(body, "accessToken", &r->token, NULL, e) < 0 ||
        check_token(r->token, e) < 0 ||
        json_get_string(body, "defaultUser", &r->user, NULL, e) < 0 ||
        json_get_string(body, "defaultWorkdir", &r->workdir, NULL, e) < 0 ||
        json_get_string(body, "hostname", &r->hostname, NULL, e) < 0 ||
        json_get_string(body, "caBundle", &r->ca_bundle, NULL, e) < 0 ||
        (r->ca_bundle && *r->ca_bundle && trust_check(r->ca_bundle, e) < 0) ||
        json_get_string(body, "timestamp", &timestamp, NULL, e) < 0 ||
        json_get_string_map(body, "envVars", &r->envs, e) < 0 ||
        json_get_bool(body, "inheritEnvVars", &r->inherit, false, e) < 0 ||
        json_get_int(body, "diskSizeMB", 0, DISK_MB_MAX, &r->disk_mb, 0, e) < 0 ||
        pjson_bytes(body, "entropy", &r->entropy, &has_entropy, e) < 0 ||
        refuse_unknown_wishes(body, e) < 0)
        return -1;
    if (timestamp && !clock_parse_rfc3339(timestamp, &r->timestamp_ns))
        return err_set(e, ERR_INVALID, "timestamp must be an RFC 3339 time");
    return 0;
}

static int authorise(const struct envd *envd, const struct http_request *req,
                     const struct init_request *r, struct err *e)
{
    const char *current = envd->settings.token;
    if (!current || str_eq_secret(current, r->token) ||
        str_eq_secret(current, http_request_header(req, "X-Access-Token")))
        return 0;
    return err_set(e, ERR_UNAUTHENTICATED,
                   r->token ? "access token validation failed"
                            : "access token reset not authorized");
}

static void replace(char **field, const char *value)
{
    free(*field);
    *field = value ? xstrdup(value) : NULL;
}

static void apply_settings(struct settings *s, const struct init_request *r)
{
    replace(&s->token, r->token);
    if (r->user && *r->user)
        replace(&s->default_user, r->user);
    if (r->workdir)
        replace(&s->default_workdir, *r->workdir ? r->workdir : NULL);
}

static int fail_inside(struct err *e)
{
    e->code = ERR_INTERNAL; // whatever the file system said: the request was fine
    return -1;
}

// A failure may have written a part, so the next one writes all.
static int apply_environment(struct settings *s, json_t *envs, bool inherit, struct err *e)
{
    if (inherit && s->envs)
        json_object_update_missing(envs, s->envs);
    else
        published_keep(s->envs, envs);
    bool was_partial = s->partly_published;
    s->partly_published = true;
    if (published_write(s->dir, was_partial ? NULL : s->envs, envs, e) < 0)
        return fail_inside(e);
    s->partly_published = false;
    json_decref(s->envs);
    s->envs = json_incref(envs);
    return 0;
}

// What is answered is kept: an envd that comes back without its token would serve anyone. What
// could not be kept is not applied either, for the one who asks again.
static int keep_settings(struct settings *s, int64_t timestamp_ns, struct err *e)
{
    int64_t applied_ns = s->applied_ns;
    if (timestamp_ns)
        s->applied_ns = timestamp_ns;
    if (settings_save(s, e) == 0)
        return 0;
    s->applied_ns = applied_ns;
    return fail_inside(e);
}

// What a guest that goes on from another's state has of it is taken away by "", and is not looked
// for where there was none.
static int apply_trust(struct settings *s, const char *ca_bundle, struct err *e)
{
    if (!ca_bundle || (!*ca_bundle && !s->has_ca))
        return 0;
    if (trust_install("", ca_bundle, e) < 0)
        return fail_inside(e);
    s->has_ca = *ca_bundle;
    return 0;
}

// Entropy first: the machine id is drawn from it.
static int apply_machine(struct envd *envd, const struct init_request *r, struct err *e)
{
    if (r->entropy.len && machine_add_entropy(r->entropy.data, r->entropy.len, e) < 0)
        return -1;
    if (r->timestamp_ns && machine_set_clock(r->timestamp_ns, e) < 0)
        return -1;
    if (r->disk_mb && disk_grow(r->disk_mb, e) < 0)
        return fail_inside(e);
    if (apply_trust(&envd->settings, r->ca_bundle, e) < 0)
        return -1;
    return r->hostname ? names_set(&envd->names, r->hostname, e) : 0;
}

static int apply(struct envd *envd, const struct http_request *req, const struct init_request *r,
                 struct err *e)
{
    if (authorise(envd, req, r, e) < 0)
        return -1;
    if (r->timestamp_ns && r->timestamp_ns <= envd->settings.applied_ns)
        return 0;
    if (envd->owns_machine && apply_machine(envd, r, e) < 0)
        return -1;
    if (r->envs && apply_environment(&envd->settings, r->envs, r->inherit, e) < 0)
        return -1;
    apply_settings(&envd->settings, r);
    if (keep_settings(&envd->settings, r->timestamp_ns, e) < 0)
        return -1;
    freeze_end(envd->freeze);
    return 0;
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct envd *envd = ctx;
    struct err e = ERR_INIT;
    struct init_request r = {0};
    // No body at all is an /init without fields.
    json_t *json = len ? json_parse(body, len, &e) : json_object();
    if (!json || parse(json, &r, &e) < 0 || apply(envd, req, &r, &e) < 0) {
        http_respond_error(req, err_http_status(e.code), "%s", e.msg);
    } else {
        http_response_header(req, "Cache-Control", "no-store");
        http_response_header(req, "X-Envd-Version", ENVD_VERSION);
        http_respond(req, 204, NULL, NULL, 0);
    }
    buf_fini(&r.entropy);
    json_decref(json);
}

void init_post(struct envd *envd, struct http_request *req)
{
    http_request_collect(req, LIMIT_JSON_BODY_BYTES, on_body, envd);
}
