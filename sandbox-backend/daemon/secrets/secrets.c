// SPDX-License-Identifier: Apache-2.0
// The secrets of one sandbox, as the daemon keeps them.
#include "sandbox-backend/daemon/secrets/secrets.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/secrets/secret_file.h"
#include "sandbox-backend/keys/authority.h"
#include "sandbox-backend/log/log.h"

#define PLACEHOLDER_PREFIX "cubby-secret-"
#define PLACEHOLDER_BYTES  16
#define GUEST_BUNDLE       "/etc/ssl/certs/ca-certificates.crt" // envd/guest/renewal.h
#define GUEST_CERTIFICATE  "/usr/local/share/ca-certificates/cubby-sandbox.crt"

// ---- a create request

static int check_env(const char *env_name, const json_t *given, const json_t *env, struct err *e)
{
    const char *name;
    json_t *other;
    if (json_object_get(env, env_name))
        return err_set(e, ERR_INVALID, "envVars must not set %s: it holds a secret's placeholder",
                       env_name);
    json_object_foreach ((json_t *)(uintptr_t)given, name, other)
        if (str_eq(json_string_value(json_object_get(other, "env")), env_name))
            return err_set(
                e, ERR_INVALID,
                "secrets: %s uses the same environment variable; leave one of the two secrets out",
                name);
    return 0;
}

// Return the cause as the caller may know it, a new string. Only the log has all of it. A caller on
// the unix socket is told without paths, as cubby-mcp passes errors on to its callers. A caller
// with an API key may be anybody, and is not told.
static char *cause(const struct secrets_opts *opts, const json_t *entry, const char *owner,
                   const struct err *why)
{
    const char *file = json_string_value(json_object_get(entry, "file"));
    const char *all = opts->path ? opts->path : "";
    size_t longest = file && strlen(file) > strlen(all) ? strlen(file) : strlen(all);
    if (owner || longest > ERR_MSG_BYTES / 2) // a path that was cut off could not be replaced
        return xstrdup("cubbyd's log says why");
    char *text auto_free = str_replace(why->msg, file ? file : "", "the secret's file");
    return str_replace(text, all, "the file of --secrets");
}

// `name` NULL: all secrets.
static int hide(const struct secrets_opts *opts, const char *name, const json_t *entry,
                const char *owner, const struct err *why, struct err *e)
{
    char *text auto_free = cause(opts, entry, owner, why);
    log_warn("secret.unusable", "name=%s error=\"%s\"", name ? name : "-", why->msg);
    return err_set(e, ERR_INVALID, "secrets: %.128s cannot be used now: %s",
                   name ? name : "the daemon's", text);
}

// An unknown secret and a forbidden one give the same error.
static int give(const struct secrets_opts *opts, const json_t *file, const char *name,
                const char *owner, const json_t *env, json_t *given, struct err *e)
{
    const json_t *entry = json_object_get(file, name);
    if (!entry || !secret_file_allows(entry, owner))
        return err_set(
            e, ERR_INVALID,
            "secrets: this caller may not use \"%.80s\"; the file of cubbyd --secrets says which "
            "secrets a caller may use",
            name);
    if (json_object_get(given, name))
        return err_set(e, ERR_INVALID, "secrets: %.128s is given twice", name);
    struct err why = ERR_INIT;
    char *value = secret_file_value(entry, &why);
    if (!value)
        return hide(opts, name, entry, owner, &why, e);
    secrets_wipe(&value);
    const char *env_name = secret_file_env_name(name, entry);
    if (check_env(env_name, given, env, e) < 0)
        return -1;
    char *unique auto_free = random_hex(PLACEHOLDER_BYTES);
    char *placeholder auto_free = str_printf(PLACEHOLDER_PREFIX "%s", unique);
    json_object_set_new(given, name,
                        json_pack("{s:s, s:s}", "placeholder", placeholder, "env", env_name));
    return 0;
}

static int give_all(const struct secrets_opts *opts, const json_t *names, const char *owner,
                    const json_t *env, json_t *given, struct err *e)
{
    struct err why = ERR_INIT;
    json_t *file = secret_file_read(opts->path, &why);
    const json_t *name;
    size_t i;
    int rc = file ? 0 : hide(opts, NULL, NULL, owner, &why, e);
    json_array_foreach (names, i, name) {
        if (rc == 0 && !json_is_string(name))
            rc = err_set(e, ERR_INVALID, "secrets must be a list of names");
        if (rc == 0)
            rc = give(opts, file, json_string_value(name), owner, env, given, e);
    }
    json_decref(file);
    return rc;
}

static json_t *make_ca(struct err *e)
{
    struct authority a;
    json_t *ca = NULL;
    if (authority_make(&a, "cubby sandbox", e) == 0)
        ca = json_pack("{s:s, s:s}", "certificate", a.certificate, "key", a.key);
    authority_fini(&a);
    return ca;
}

int secrets_wanted(const struct secrets_opts *opts, const json_t *names, const char *owner,
                   const json_t *env, json_t **out, struct err *e)
{
    *out = NULL;
    if (!names || json_is_null(names) || (json_is_array(names) && json_array_size(names) == 0))
        return 0;
    if (!json_is_array(names) || json_array_size(names) > SECRETS_OF_ONE_MAX)
        return err_set(e, ERR_INVALID, "secrets must be a list of at most %d names",
                       SECRETS_OF_ONE_MAX);
    if (!opts->path)
        return err_set(e, ERR_INVALID,
                       "secrets: this daemon has no secrets (start it with --secrets FILE)");
    json_t *given = json_object();
    json_t *ca = NULL;
    if (give_all(opts, names, owner, env, given, e) == 0 && (ca = make_ca(e)))
        *out = json_pack("{s:o, s:o}", "given", json_incref(given), "ca", ca);
    json_decref(given);
    return *out ? 0 : -1;
}

// ---- for egress

void secrets_wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(steal(text));
}

// JSON text that holds a value is written by hand, so that no copy of the value stays in freed
// memory.
static void add_string(struct buf *out, const char *text)
{
    buf_addc(out, '"');
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            buf_addc(out, '\\');
        buf_addc(out, *c);
    }
    buf_addc(out, '"');
}

static int add_one(struct buf *out, const json_t *file, const char *name, const json_t *given,
                   struct err *e)
{
    const json_t *entry = json_object_get(file, name);
    if (!entry)
        return err_set(e, ERR_NOT_FOUND, "the secret is no longer in the file of --secrets");
    char *value = secret_file_value(entry, e);
    if (!value)
        return -1;
    char *hosts auto_free = json_to_string(json_object_get(entry, "hosts"));
    buf_printf(out, "%s{\"name\":", out->data[out->len - 1] == '[' ? "" : ",");
    add_string(out, name);
    buf_printf(out, ",\"hosts\":%s,\"placeholder\":", hosts);
    add_string(out, json_string_value(json_object_get(given, "placeholder")));
    buf_adds(out, ",\"value\":");
    add_string(out, value);
    buf_addc(out, '}');
    secrets_wipe(&value);
    return 0;
}

static void note(struct secrets_missing *missing, const char *name, char *why /* taken */)
{
    char *before = missing->names;
    missing->names = before ? str_printf("%s, %s", before, name) : xstrdup(name);
    free(before);
    if (missing->why)
        free(why);
    else
        missing->why = why;
}

void secrets_missing_fini(struct secrets_missing *missing)
{
    free(missing->names);
    free(missing->why);
}

static json_t *read_file(const struct secrets_opts *opts, struct err *e)
{
    if (opts->path)
        return secret_file_read(opts->path, e);
    err_set(e, ERR_PRECONDITION, "this daemon has no secrets (start it with --secrets FILE)");
    return NULL;
}

char *secrets_egress(const struct secrets_opts *opts, const json_t *secrets, const char *owner,
                     struct secrets_missing *missing)
{
    struct buf out = BUF_INIT;
    struct err unread = ERR_INIT;
    const char *name;
    json_t *given;
    *missing = (struct secrets_missing){0};
    if (!secrets)
        return NULL;
    json_t *file = read_file(opts, &unread);
    char *ca auto_free = json_to_string(json_object_get(secrets, "ca"));
    buf_room(&out, (size_t)SECRETS_OF_ONE_MAX *
                       1024); // large enough that it is seldom moved while it holds values
    buf_printf(&out, "{\"ca\":%s,", ca);
    if (opts->trust) {
        buf_adds(&out, "\"trust\":");
        add_string(&out, opts->trust);
        buf_addc(&out, ',');
    }
    buf_adds(&out, "\"secrets\":[");
    json_object_foreach (json_object_get(secrets, "given"), name, given) {
        struct err e = unread;
        if (file && add_one(&out, file, name, given, &e) == 0)
            continue;
        log_warn("secret.unusable", "name=%s error=\"%s\"", name, e.msg);
        note(missing, name, cause(opts, json_object_get(file, name), owner, &e));
    }
    buf_adds(&out, "]}");
    json_decref(file);
    explicit_bzero(ca, strlen(ca));
    return buf_take(&out);
}

// ---- for the guest

void secrets_environment(const json_t *secrets, json_t *env)
{
    static const char *const BUNDLES[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                                          "GIT_SSL_CAINFO"};
    const char *name;
    json_t *given;
    if (!secrets)
        return;
    json_object_foreach (json_object_get(secrets, "given"), name, given) {
        json_object_set(env, json_string_value(json_object_get(given, "env")),
                        json_object_get(given, "placeholder"));
    }
    for (size_t i = 0; i < ARRAY_LEN(BUNDLES); i++)
        if (!json_object_get(env, BUNDLES[i]))
            json_object_set_new(env, BUNDLES[i], json_string(GUEST_BUNDLE));
    if (!json_object_get(env, "NODE_EXTRA_CA_CERTS"))
        json_object_set_new(env, "NODE_EXTRA_CA_CERTS", json_string(GUEST_CERTIFICATE));
}

const char *secrets_certificate(const json_t *secrets)
{
    const char *pem =
        json_string_value(json_object_get(json_object_get(secrets, "ca"), "certificate"));
    return pem ? pem : "";
}

json_t *secrets_names(const json_t *secrets)
{
    json_t *names = json_array();
    const char *name;
    json_t *given;
    json_object_foreach (json_object_get(secrets, "given"), name, given) {
        json_array_append_new(names, json_string(name));
    }
    return names;
}
