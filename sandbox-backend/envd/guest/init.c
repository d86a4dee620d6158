// SPDX-License-Identifier: Apache-2.0
// POST /init: token, environment, default user and directory; and for a guest entropy, clock, name,
// and the size of its disk.
//
// Access: while no token is set, anyone may call. Afterwards, each call needs the token. If the
// body gives the token, it stays the token. If X-Access-Token gives it, the body may set another
// one, or none. A request whose timestamp is not newer than the last applied one gets the usual
// answer and changes nothing, since orchestrators repeat requests. Features of E2B's hosts that
// Cubby lacks (volumes, an events server) are refused. The guest trusts caBundle from then on
// (renewal.h); "" removes an earlier one. envVars replace the environment. With inheritEnvVars,
// Cubby's own member for a guest that continues from another's state, variables that envVars does
// not name stay.
//
// As the last step, the processes that quiesce.h stopped continue. By then this guest has no
// identity of the guest that it was copied from.
//
// The files for other programs (core/settings.h) are written before the answer, after which the
// client may start one. Only changed files are written: in an emulated guest, creating files costs
// more than everything else here.
#include "sandbox-backend/envd/guest/rest.h"

#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/envd/guest/names.h"
#include "sandbox-backend/envd/guest/quiesce.h"
#include "sandbox-backend/envd/guest/renewal.h"
#include "sandbox-backend/envd/rpc/pjson.h"

#define DISK_MB_MAX (1 << 24)

struct init_request {
    const char *token;
    const char *user;
    const char *workdir;
    const char *hostname;
    const char *ca_bundle; // NULL: unchanged
    json_t *envs;
    bool inherit;         // variables of the present environment
    int64_t timestamp_ns; // 0: absent
    int64_t disk_mb;      // 0: unchanged
    struct buf entropy;
};

static int check_token(const char *token, struct err *e)
{
    if (token && (!*token || strchr(token, '\\') || strpbrk(token, "\r\n")))
        return err_set(e, ERR_INVALID, "accessToken must not be empty or contain a backslash");
    return 0;
}

static int refuse_unknown_wishes(const json_t *body, struct err *e)
{
    const char *text;
    const json_t *volumes = json_object_get(body, "volumeMounts");
    if (json_get_string(body, "lifecycleID", &text, NULL, e) < 0) // for E2B's logs
        return -1;
    if (json_get_string(body, "hyperloopIP", &text, NULL, e) < 0)
        return -1;
    if (text && *text)
        return err_set(
            e, ERR_INVALID,
            "hyperloopIP is not supported, because Cubby has no events server: leave it out");
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
    e->code = ERR_INTERNAL; // a failure of the file system, not of the request
    return -1;
}

// Write the settings before the answer: an envd that restarts without its token would serve every
// client. If the write fails, the old timestamp is restored, so that a repeated request is applied.
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

// "" removes the certificate authority that the guest got with a copied state. Without an authority
// there is nothing to do.
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
    if (r->entropy.len && renewal_add_entropy(r->entropy.data, r->entropy.len, e) < 0)
        return -1;
    if (r->timestamp_ns && renewal_set_clock(r->timestamp_ns, e) < 0)
        return -1;
    if (r->disk_mb && renewal_grow_disk(r->disk_mb, e) < 0)
        return fail_inside(e);
    return r->hostname ? names_set(envd->names, r->hostname, e) : 0;
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
    if (envd->owns_files && apply_trust(&envd->settings, r->ca_bundle, e) < 0)
        return -1;
    if (r->envs && settings_set_environment(&envd->settings, r->envs, r->inherit, e) < 0)
        return fail_inside(e);
    apply_settings(&envd->settings, r);
    if (keep_settings(&envd->settings, r->timestamp_ns, e) < 0)
        return -1;
    quiesce_end(envd->quiesce);
    return 0;
}

static void on_body(struct http_request *req, const char *body, size_t len, void *ctx)
{
    struct envd *envd = ctx;
    struct err e = ERR_INIT;
    struct init_request r = {0};
    // An empty body is an /init without members.
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

void init_post(struct envd *envd, struct http_request *req, const char *basic)
{
    (void)basic;
    http_request_collect(req, LIMIT_JSON_BODY_BYTES, on_body, envd);
}
