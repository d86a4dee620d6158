// SPDX-License-Identifier: Apache-2.0
// The secrets of one sandbox, as the daemon keeps them.
#include "sandbox-backend/daemon/secrets.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/secret_file.h"
#include "sandbox-backend/daemon/store.h"
#include "sandbox-backend/keys/authority.h"
#include "sandbox-backend/log/log.h"

#define PLACEHOLDER_PREFIX "cubby-secret-"
#define PLACEHOLDER_BYTES  16
#define GUEST_BUNDLE       "/etc/ssl/certs/ca-certificates.crt" // envd/trust.h
#define GUEST_CERTIFICATE  "/usr/local/share/ca-certificates/cubby-sandbox.crt"

// ---- what is asked for

static int check_env(const char *env_name, const json_t *given, const json_t *env, struct err *e)
{
    const char *name;
    json_t *other;
    if (json_object_get(env, env_name))
        return err_set(e, ERR_INVALID, "envVars sets %s, which holds a secret's placeholder",
                       env_name);
    json_object_foreach((json_t *)(uintptr_t)given, name,
                        other) if (str_eq(json_string_value(json_object_get(other, "env")),
                                          env_name)) return err_set(e, ERR_INVALID,
                                                                    "secrets %s has the same "
                                                                    "variable",
                                                                    name);
    return 0;
}

// What is wrong with files of the host is told in full by the log alone. Who asks over the unix
// socket learns it without their paths, which cubby-mcp would hand on to its callers; who comes
// with a key, and may be anybody, does not.
static char *cause(const struct store *store, const json_t *entry, const char *owner,
                   const struct err *why)
{
    const char *file = json_string_value(json_object_get(entry, "file"));
    const char *all = store->secrets.path ? store->secrets.path : "";
    size_t longest = file && strlen(file) > strlen(all) ? strlen(file) : strlen(all);
    if (owner || longest > ERR_MSG_BYTES / 2) // what is cut off cannot be found
        return xstrdup("cubbyd's log says why");
    char *text auto_free = str_replace(why->msg, file ? file : "", "its file");
    return str_replace(text, all, "the file of --secrets");
}

// `name` NULL: all of them.
static int hide(const struct store *store, const char *name, const json_t *entry, const char *owner,
                const struct err *why, struct err *e)
{
    char *text auto_free = cause(store, entry, owner, why);
    log_warn("secret.unusable", "name=%s error=\"%s\"", name ? name : "-", why->msg);
    return err_set(e, ERR_INVALID, "secrets: %.128s cannot be used now: %s",
                   name ? name : "the daemon's", text);
}

// Unknown and forbidden are the same to who may not use it.
static int give(const struct store *store, const json_t *file, const char *name, const char *owner,
                const json_t *env, json_t *given, struct err *e)
{
    const json_t *entry = json_object_get(file, name);
    if (!entry || !secret_file_allows(entry, owner))
        return err_set(e, ERR_INVALID,
                       "secrets: \"%.80s\" is none that this caller may use (they are in the file "
                       "of cubbyd --secrets)",
                       name);
    if (json_object_get(given, name))
        return err_set(e, ERR_INVALID, "secrets: %.128s is given twice", name);
    struct err why = ERR_INIT;
    char *value = secret_file_value(entry, &why);
    if (!value)
        return hide(store, name, entry, owner, &why, e);
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

static int give_all(const struct store *store, const json_t *names, const char *owner,
                    const json_t *env, json_t *given, struct err *e)
{
    struct err why = ERR_INIT;
    json_t *file = secret_file_read(store->secrets.path, &why);
    const json_t *name;
    size_t i;
    int rc = file ? 0 : hide(store, NULL, NULL, owner, &why, e);
    json_array_foreach(names, i, name)
    {
        if (rc == 0 && !json_is_string(name))
            rc = err_set(e, ERR_INVALID, "secrets must be a list of names");
        if (rc == 0)
            rc = give(store, file, json_string_value(name), owner, env, given, e);
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

int secrets_wanted(const struct store *store, const json_t *names, const char *owner,
                   const json_t *env, json_t **out, struct err *e)
{
    *out = NULL;
    if (!names || json_is_null(names) || (json_is_array(names) && json_array_size(names) == 0))
        return 0;
    if (!json_is_array(names) || json_array_size(names) > SECRETS_OF_ONE_MAX)
        return err_set(e, ERR_INVALID, "secrets must be a list of at most %d names",
                       SECRETS_OF_ONE_MAX);
    if (!store->secrets.path)
        return err_set(e, ERR_INVALID,
                       "secrets: this daemon has none (start it with --secrets FILE)");
    json_t *given = json_object();
    json_t *ca = NULL;
    if (give_all(store, names, owner, env, given, e) == 0 && (ca = make_ca(e)))
        *out = json_pack("{s:o, s:o}", "given", json_incref(given), "ca", ca);
    json_decref(given);
    return *out ? 0 : -1;
}

// ---- what egress is told

void secrets_wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(steal(text));
}

// JSON text is put together by hand where a value is in it, so that no copy of it stays in memory
// that was freed.
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
        return err_set(e, ERR_NOT_FOUND, "it is no longer in the file of --secrets");
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

static json_t *read_file(const struct store *store, struct err *e)
{
    if (store->secrets.path)
        return secret_file_read(store->secrets.path, e);
    err_set(e, ERR_PRECONDITION, "this daemon has no secrets (start it with --secrets FILE)");
    return NULL;
}

char *secrets_egress(const struct store *store, const json_t *secrets, const char *owner,
                     struct secrets_missing *missing)
{
    struct buf out = BUF_INIT;
    struct err unread = ERR_INIT;
    const char *name;
    json_t *given;
    *missing = (struct secrets_missing){0};
    if (!secrets)
        return NULL;
    json_t *file = read_file(store, &unread);
    char *ca auto_free = json_to_string(json_object_get(secrets, "ca"));
    buf_room(&out, (size_t)SECRETS_OF_ONE_MAX * 1024); // moved seldom while values are in it
    buf_printf(&out, "{\"ca\":%s,", ca);
    if (store->secrets.trust) {
        buf_adds(&out, "\"trust\":");
        add_string(&out, store->secrets.trust);
        buf_addc(&out, ',');
    }
    buf_adds(&out, "\"secrets\":[");
    json_object_foreach(json_object_get(secrets, "given"), name, given)
    {
        struct err e = unread;
        if (file && add_one(&out, file, name, given, &e) == 0)
            continue;
        log_warn("secret.unusable", "name=%s error=\"%s\"", name, e.msg);
        note(missing, name, cause(store, json_object_get(file, name), owner, &e));
    }
    buf_adds(&out, "]}");
    json_decref(file);
    explicit_bzero(ca, strlen(ca));
    return buf_take(&out);
}

// ---- what the guest is told

void secrets_environment(const json_t *secrets, json_t *env)
{
    static const char *const BUNDLES[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                                          "GIT_SSL_CAINFO"};
    const char *name;
    json_t *given;
    if (!secrets)
        return;
    json_object_foreach(json_object_get(secrets, "given"), name, given)
    {
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
    json_object_foreach(json_object_get(secrets, "given"), name, given)
    {
        json_array_append_new(names, json_string(name));
    }
    return names;
}
