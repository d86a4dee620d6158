// SPDX-License-Identifier: Apache-2.0
// The secrets of one sandbox, as the daemon keeps them.
#include "sandbox-backend/daemon/secrets/secrets.h"

#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/host_pattern.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/secrets/egress_proxy.h"
#include "sandbox-backend/daemon/secrets/header_rules.h"
#include "sandbox-backend/daemon/secrets/secret_file.h"
#include "sandbox-backend/daemon/secrets/secret_store.h"
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

// The sources in which one request's secrets are looked up. All are borrowed.
struct search {
    const struct secrets_opts *opts;
    const struct secrets_wish *wish;
    const json_t *file; // NULL: there is none
    json_t *given;      // what has been found
};

// Return the owner's secret of this name, or NULL. An entry of the secrets file that is not for the
// owner does not exist for the owner. New reference.
static json_t *look_up(const struct secrets_opts *opts, const json_t *file, const char *name,
                       const char *owner)
{
    json_t *entry = json_object_get(file, name);
    if (entry && secret_file_allows(entry, owner))
        return json_incref(entry);
    return opts->stored ? secret_store_entry(opts->stored, name, owner) : NULL;
}

static int no_secret(const struct search *s, const char *name, struct err *e)
{
    if (!s->opts->path)
        return err_set(e, ERR_INVALID,
                       "secrets: this caller has no secret \"%.80s\", and this daemon has no "
                       "secrets file (start it with --secrets FILE, or make the secret with POST "
                       "/secrets)",
                       name);
    return err_set(
        e, ERR_INVALID,
        "secrets: this caller may not use \"%.80s\"; the file of cubbyd --secrets says which "
        "secrets a caller may use",
        name);
}

// Return the entry of a secret whose value can be read. An unknown secret and a forbidden one give
// the same error. New reference.
static json_t *find(const struct search *s, const char *name, struct err *e)
{
    const char *owner = s->wish->owner;
    json_t *entry = look_up(s->opts, s->file, name, owner);
    struct err why = ERR_INIT;
    char *value = NULL;
    if (!entry)
        no_secret(s, name, e);
    else if (json_object_size(s->given) >= SECRETS_OF_ONE_MAX)
        err_set(e, ERR_INVALID, "secrets: a sandbox may use at most %d secrets",
                SECRETS_OF_ONE_MAX);
    else if (!(value = secret_file_value(entry, &why)))
        hide(s->opts, name, entry, owner, &why, e);
    secrets_wipe(&value);
    if (err_is(e))
        json_decref(steal(&entry));
    return entry;
}

static json_t *add(const struct search *s, const char *name, const json_t *entry)
{
    char *unique auto_free = random_hex(PLACEHOLDER_BYTES);
    char *placeholder auto_free = str_printf(PLACEHOLDER_PREFIX "%s", unique);
    json_t *one = json_pack("{s:s}", "placeholder", placeholder);
    if (entry != json_object_get(s->file, name))
        json_object_set_new(one, "stored", json_true());
    json_object_set_new(s->given, name, one);
    return one;
}

static int give(const struct search *s, const char *name, struct err *e)
{
    if (json_object_get(s->given, name))
        return err_set(e, ERR_INVALID, "secrets: %.128s is given twice", name);
    json_t *entry = find(s, name, e);
    if (!entry)
        return -1;
    const char *env_name = secret_file_env_name(name, entry);
    if (!json_object_get(entry, "hosts"))
        err_set(e, ERR_INVALID,
                "secrets: %.128s is for no host; set " SECRET_HOSTS_KEY
                " in its metadata, or use it in network.rules",
                name);
    else if (secret_file_check_use(entry, e) == 0 &&
             check_env(env_name, s->given, s->wish->env, e) == 0)
        json_object_set_new(add(s, name, entry), "env", json_string(env_name));
    json_decref(entry);
    return err_is(e) ? -1 : 0;
}

static bool is_for(const json_t *hosts, const char *host)
{
    size_t i;
    const json_t *pattern;
    json_array_foreach (hosts, i, pattern)
        if (strcasecmp(json_string_value(pattern), host) == 0 ||
            host_pattern_matches(json_string_value(pattern), host))
            return true;
    return false;
}

// Return the entry of a secret that is given already. New reference, or NULL.
static json_t *find_again(const struct search *s, const char *name, const json_t *one)
{
    bool stored = json_is_true(json_object_get(one, "stored"));
    return look_up(s->opts, stored ? NULL : s->file, name, s->wish->owner);
}

// Note that a rule uses a secret.
static int use_in_rule(const char *host, const char *name, void *ctx, struct err *e)
{
    const struct search *s = ctx;
    json_t *one = json_object_get(s->given, name);
    json_t *entry = one ? find_again(s, name, one) : find(s, name, e);
    if (!entry)
        return err_is(e) ? err_wrap(e, "network.rules: %.80s", host) : no_secret(s, name, e);
    const json_t *own = json_object_get(entry, "hosts");
    one = one ? one : add(s, name, entry);
    if (own && !is_for(own, host))
        err_set(e, ERR_INVALID, "network.rules: secret %.80s is not for the host %.80s", name,
                host);
    json_decref(entry);
    if (own || err_is(e))
        return err_is(e) ? -1 : 0;
    json_t *hosts = json_object_get(one, "hosts");
    if (!hosts)
        json_object_set_new(one, "hosts", hosts = json_array());
    if (!is_for(hosts, host))
        json_array_append_new(hosts, json_string(host));
    return 0;
}

static int give_all(struct search *s, struct err *e)
{
    const struct secrets_opts *opts = s->opts;
    struct err why = ERR_INIT;
    json_t *file = opts->path ? secret_file_read(opts->path, &why) : NULL;
    const json_t *name;
    size_t i;
    int rc = err_is(&why) ? hide(opts, NULL, NULL, s->wish->owner, &why, e) : 0;
    s->file = file;
    json_array_foreach (s->wish->names, i, name) {
        if (rc == 0 && !json_is_string(name))
            rc = err_set(e, ERR_INVALID, "secrets must be a list of names");
        if (rc == 0)
            rc = give(s, json_string_value(name), e);
    }
    if (rc == 0)
        rc = header_rules_each(s->wish->rules, use_in_rule, s, e);
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

// Find the secrets of the search, and make the object. `ca` NULL: make an authority, too.
static int complete(struct search *s, json_t *ca, json_t **out, struct err *e)
{
    const json_t *rules = s->wish->rules;
    bool fits = give_all(s, e) == 0 && header_rules_check_filled(rules, s->given, e) == 0;
    json_t *own = !fits ? NULL : ca ? json_incref(ca) : make_ca(e);
    if (own)
        *out = json_pack("{s:O, s:O*, s:O*, s:o}", "given", s->given, "rules", rules, "proxy",
                         s->wish->proxy, "ca", own);
    return own ? 0 : -1;
}

// Check the rules and the proxy. On success both are new references, or NULL.
static int check_network(const struct secrets_opts *opts, const struct secrets_wish *wish,
                         json_t **rules, json_t **proxy, struct err *e)
{
    *rules = *proxy = NULL;
    if (header_rules_parse(wish->rules, rules, e) == 0 &&
        egress_proxy_parse(wish->proxy, opts->private_network, proxy, e) == 0)
        return 0;
    json_decref(steal(rules));
    return -1;
}

int secrets_wanted(const struct secrets_opts *opts, const struct secrets_wish *wish, json_t **out,
                   struct err *e)
{
    const json_t *names = wish->names;
    json_t *rules, *proxy;
    *out = NULL;
    if (names && !json_is_null(names) &&
        (!json_is_array(names) || json_array_size(names) > SECRETS_OF_ONE_MAX))
        return err_set(e, ERR_INVALID, "secrets must be a list of at most %d names",
                       SECRETS_OF_ONE_MAX);
    if (check_network(opts, wish, &rules, &proxy, e) < 0)
        return -1;
    if (!json_array_size(names) && !rules && !proxy)
        return 0;
    const struct secrets_wish checked = {names, rules, proxy, wish->owner, wish->env};
    struct search s = {.opts = opts, .wish = &checked, .given = json_object()};
    int rc = complete(&s, NULL, out, e);
    json_decref(s.given);
    json_decref(rules);
    json_decref(proxy);
    return rc;
}

// Return the secrets that the guest has placeholders of. New reference.
static json_t *given_to_guest(const json_t *secrets)
{
    json_t *given = json_object(), *one;
    const char *name;
    json_object_foreach (json_object_get(secrets, "given"), name, one)
        if (json_object_get(one, "env"))
            json_object_set_new(given, name, json_deep_copy(one));
    return given;
}

int secrets_with_network(const struct secrets_opts *opts, const json_t *secrets,
                         const struct secrets_wish *wish, json_t **out, struct err *e)
{
    json_t *rules, *proxy;
    *out = NULL;
    if (check_network(opts, wish, &rules, &proxy, e) < 0)
        return -1;
    if (!secrets && !rules && !proxy)
        return 0;
    const struct secrets_wish checked = {.rules = rules, .proxy = proxy, .owner = wish->owner};
    struct search s = {.opts = opts, .wish = &checked, .given = given_to_guest(secrets)};
    int rc = complete(&s, json_object_get(secrets, "ca"), out, e);
    json_decref(s.given);
    json_decref(rules);
    json_decref(proxy);
    return rc;
}

bool secrets_need_hands(const json_t *secrets)
{
    return json_object_size(json_object_get(secrets, "given")) > 0 || secrets_rules(secrets);
}

bool secrets_need_dials(const json_t *secrets)
{
    return secrets_proxy(secrets) != NULL;
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

struct value_user {
    secrets_value_cb use;
    void *ctx;
};

static int add_one(struct buf *out, const json_t *entry, const char *name, const json_t *given,
                   const struct value_user *user, struct err *e)
{
    const json_t *own = json_object_get(entry, "hosts");
    char *value = secret_file_value(entry, e);
    if (!value)
        return -1;
    if (user->use)
        user->use(value, user->ctx);
    char *hosts auto_free = json_to_string(own ? own : json_object_get(given, "hosts"));
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

static void add_all(struct buf *out, const struct secrets_opts *opts, const json_t *secrets,
                    const char *owner, const struct value_user *user,
                    struct secrets_missing *missing)
{
    struct err unread = ERR_INIT;
    const char *name;
    json_t *given;
    json_t *file = opts->path ? secret_file_read(opts->path, &unread) : NULL;
    json_object_foreach (json_object_get(secrets, "given"), name, given) {
        struct err e = unread;
        bool stored = json_is_true(json_object_get(given, "stored"));
        json_t *entry = look_up(opts, stored ? NULL : file, name, owner);
        if (!entry && !err_is(&e))
            err_set(&e, ERR_NOT_FOUND, "%s",
                    opts->path ? "the secret was deleted, or the file of --secrets no longer has "
                                 "it for this caller"
                               : "the secret was deleted, or the daemon lacks --secrets FILE");
        if (!entry || add_one(out, entry, name, given, user, &e) < 0) {
            log_warn("secret.unusable", "name=%s error=\"%s\"", name, e.msg);
            note(missing, name, cause(opts, entry, owner, &e));
        }
        json_decref(entry);
    }
    json_decref(file);
}

// Add the proxy, whose password is a value, too.
static void add_proxy(struct buf *out, const struct secrets_opts *opts, const json_t *proxy,
                      const struct value_user *user)
{
    const char *password = json_string_value(json_object_get(proxy, "password"));
    json_t *json = egress_proxy_for_egress(proxy, opts->private_network);
    char *text auto_free = json ? json_to_string(json) : NULL;
    json_decref(json);
    if (!text)
        return;
    if (password && user->use)
        user->use(password, user->ctx);
    buf_printf(out, "\"proxy\":%s,", text);
    explicit_bzero(text, strlen(text));
}

char *secrets_egress(const struct secrets_opts *opts, const json_t *secrets, const char *owner,
                     secrets_value_cb on_value, void *ctx, struct secrets_missing *missing)
{
    const struct value_user user = {on_value, ctx};
    struct buf out = BUF_INIT;
    *missing = (struct secrets_missing){0};
    if (!secrets_need_hands(secrets) && !secrets_need_dials(secrets))
        return NULL;
    json_t *rules =
        header_rules_for_egress(secrets_rules(secrets), json_object_get(secrets, "given"));
    char *ca auto_free = json_to_string(json_object_get(secrets, "ca"));
    char *rules_text auto_free = json_to_string(rules);
    json_decref(rules);
    buf_room(&out, (size_t)SECRETS_OF_ONE_MAX *
                       1024); // large enough that it is seldom moved while it holds values
    buf_printf(&out, "{\"ca\":%s,\"rules\":%s,", ca, rules_text);
    if (opts->trust) {
        buf_adds(&out, "\"trust\":");
        add_string(&out, opts->trust);
        buf_addc(&out, ',');
    }
    add_proxy(&out, opts, secrets_proxy(secrets), &user);
    buf_adds(&out, "\"secrets\":[");
    add_all(&out, opts, secrets, owner, &user, missing);
    buf_adds(&out, "]}");
    explicit_bzero(ca, strlen(ca));
    return buf_take(&out);
}

// ---- for the guest

void secrets_add_bundles(json_t *env)
{
    static const char *const BUNDLES[] = {"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                                          "GIT_SSL_CAINFO"};
    for (size_t i = 0; i < ARRAY_LEN(BUNDLES); i++)
        if (!json_object_get(env, BUNDLES[i]))
            json_object_set_new(env, BUNDLES[i], json_string(GUEST_BUNDLE));
    if (!json_object_get(env, "NODE_EXTRA_CA_CERTS"))
        json_object_set_new(env, "NODE_EXTRA_CA_CERTS", json_string(GUEST_CERTIFICATE));
}

void secrets_environment(const json_t *secrets, json_t *env)
{
    const char *name;
    json_t *given;
    if (!secrets)
        return;
    json_object_foreach (json_object_get(secrets, "given"), name, given) {
        const char *variable = json_string_value(json_object_get(given, "env"));
        if (variable)
            json_object_set(env, variable, json_object_get(given, "placeholder"));
    }
    secrets_add_bundles(env);
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
        if (json_object_get(given, "env"))
            json_array_append_new(names, json_string(name));
    }
    return names;
}

json_t *secrets_rules(const json_t *secrets)
{
    return json_object_get(secrets, "rules");
}

json_t *secrets_proxy(const json_t *secrets)
{
    return json_object_get(secrets, "proxy");
}
