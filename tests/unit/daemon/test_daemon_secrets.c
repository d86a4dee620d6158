// SPDX-License-Identifier: Apache-2.0
// The configuration that the daemon writes for cubby-egress: egress accepts it, and it has the
// present values of the secrets.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/secrets/secret_store.h"
#include "sandbox-backend/daemon/secrets/secrets.h"
#include "sandbox-backend/egress/rules.h"
#include "sandbox-backend/egress/secret.h"
#include "sandbox-backend/egress/tls_context.h"
#include "tests/lib/harness/tap.h"

#define QUOTED "pa\"ss\\word\xc3\xa4" // what JSON has to escape, and what it has not

static char dir[] = "/tmp/cubby-secrets-XXXXXX";
static struct secrets_opts opts;

static void put(const char *name, const char *text)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    file_replace(path, text, strlen(text), 0600, NULL);
}

static json_t *wanted_with(const char *names, const char *rules)
{
    struct err e = ERR_INIT;
    json_t *list = json_parse(names, strlen(names), &e);
    json_t *table = rules ? json_parse(rules, strlen(rules), &e) : NULL;
    json_t *secrets = NULL;
    const struct secrets_wish wish = {.names = list, .rules = table};
    int rc = secrets_wanted(&opts, &wish, &secrets, &e);
    ok(rc == 0, "%s: %s", names, e.msg);
    json_decref(list);
    json_decref(table);
    return secrets;
}

static json_t *wanted(const char *names)
{
    return wanted_with(names, NULL);
}

// As cubby-egress reads it.
static size_t take(const char *text, struct secrets *out)
{
    struct err e = ERR_INIT;
    json_t *json = json_parse(text, strlen(text), &e);
    const json_t *ca = json_object_get(json, "ca");
    int rc = secrets_from_json(out, json_object_get(json, "secrets"), &e);
    ok(json && rc == 0, "it is what cubby-egress takes: %s", e.msg);
    struct leaves *leaves = leaves_new(json_string_value(json_object_get(ca, "certificate")),
                                       json_string_value(json_object_get(ca, "key")), &e);
    ok(leaves && leaves_for(leaves, "api.example.com"), "the authority signs: %s", e.msg);
    if (leaves)
        leaves_free(leaves);
    json_decref(json);
    return out->count;
}

static void test_text(void)
{
    json_t *secrets = wanted("[\"A\", \"B\"]");
    struct secrets_missing missing;
    char *text = secrets_egress(&opts, secrets, NULL, NULL, NULL, &missing);
    struct secrets taken;
    is_int(take(text, &taken), 2, "both");
    is_str(taken.items[0].value, QUOTED, "its value, without the newline of its file");
    is_str(taken.items[1].value, "of the environment", "a variable's");
    ok(secret_is_for(&taken.items[1], "b.example.com") && !missing.names, "its hosts");
    ok(strstr(text, "\"trust\":\"/some/file.pem\"") != NULL, "what hosts are verified with");
    secrets_fini(&taken);
    secrets_wipe(&text);
    ok(!text, "wiped");

    put("value", "another value");
    text = secrets_egress(&opts, secrets, NULL, NULL, NULL, &missing);
    take(text, &taken);
    is_str(taken.items[0].value, "another value", "what changed counts the next time");
    secrets_fini(&taken);
    secrets_wipe(&text);

    put("value", "short");
    text = secrets_egress(&opts, secrets, NULL, NULL, NULL, &missing);
    is_int(take(text, &taken), 1, "one that is of no use is left out");
    is_str(missing.names, "A", "and named");
    is_str(missing.why, "the secret's value must have 8 to 65536 bytes", "and why");
    secrets_fini(&taken);
    secrets_wipe(&text);
    secrets_missing_fini(&missing);
    put("value", QUOTED "\n");
    json_decref(secrets);
}

// Secrets that only rules use: cubby-egress gets them, the guest does not.
static void test_rules(void)
{
    static const char RULES[] =
        "{\"API.example.com\": [{\"transform\": {\"headers\": {\"authorization\": \"first\"}}}, "
        "{\"transform\": {\"headers\": {\"Authorization\": \"Bearer ${e2b.secrets.mine}!\", "
        "\"X-B\": \"${e2b.secrets.B}${e2b.secrets.mine}\"}}}, {}], \"plain.example.org\": []}";
    struct secret_store store;
    struct err e = ERR_INIT;
    struct secrets taken;
    struct rules rules;
    struct secrets_missing missing;
    ok(secret_store_open(&store, dir, &e) == 0, "the store: %s", e.msg);
    ok(secret_store_add(&store, "Mine", "value of mine", NULL, NULL, &e) != NULL, "added: %s",
       e.msg);
    opts.stored = &store;
    json_t *secrets = wanted_with("[]", RULES);
    char *text = secrets_egress(&opts, secrets, NULL, NULL, NULL, &missing);
    is_int(take(text, &taken), 2, "both secrets");
    is_str(taken.items[0].value, "value of mine", "the value of the file in the store");
    is_str(taken.items[0].hosts[0], "api.example.com", "for the rule's host");
    is_str(taken.items[1].hosts[0], "*.example.com", "for the hosts of the secrets file");
    json_t *json = json_parse(text, strlen(text), &e);
    ok(rules_from_json(&rules, json_object_get(json, "rules"), &e) == 0, "rules: %s", e.msg);
    const struct rule *rule = rules_for(&rules, "api.example.com");
    is_int(rule->count, 2, "a later rule replaces a header of an earlier one");
    char *bearer auto_free = str_printf("Bearer %s!", taken.items[0].placeholder);
    char *both auto_free =
        str_printf("%s%s", taken.items[1].placeholder, taken.items[0].placeholder);
    is_str(rule->headers[0].value, bearer, "with the placeholder");
    is_str(rule->headers[1].value, both, "and with two");
    ok(rules_for(&rules, "plain.example.org")->count == 0, "a host without headers");
    json_t *env = json_object(), *names = secrets_names(secrets);
    secrets_environment(secrets, env);
    char *variables auto_free = json_to_string(env);
    ok(!strstr(variables, taken.items[0].placeholder), "the guest has no placeholder");
    is_int(json_array_size(names), 0, "and no name");
    json_decref(names);
    json_decref(env);
    json_decref(json);
    json_decref(secrets);
    rules_fini(&rules);
    secrets_fini(&taken);
    secrets_wipe(&text);
    secret_store_fini(&store);
    opts.stored = NULL;
}

// Return what a sandbox of the key "eve" gets of "B", which the secrets file has as `entry`.
static char *woken(const json_t *secrets, const char *entry, struct secrets_missing *missing)
{
    char *text auto_free = str_printf("{\"B\": %s}", entry);
    put("eve.json", text);
    return secrets_egress(&opts, secrets, "eve", NULL, NULL, missing);
}

#define OF_FILE(keys) "{\"env\": \"TEST_B\", \"hosts\": [\"*.example.com\"], \"keys\": [" keys "]}"

// An entry of the secrets file that is not for the owner is not used when the sandbox wakes.
static void test_owners(void)
{
    struct secret_store store;
    struct err e = ERR_INIT;
    struct secrets taken;
    struct secrets_missing missing;
    const char *before = opts.path;
    char *path auto_free = str_printf("%s/eve.json", dir);
    json_t *names = json_pack("[s]", "B"), *hosts = json_pack("{s:s}", SECRET_HOSTS_KEY, "a.org");
    json_t *stored = NULL, *filed = NULL;
    const struct secrets_wish wish = {.names = names, .owner = "eve"};
    opts.path = path;
    put("eve.json", "{\"B\": " OF_FILE("\"bob\"") "}");
    ok(secret_store_open(&store, dir, &e) == 0, "the store: %s", e.msg);
    struct stored_secret *own = secret_store_add(&store, "B", "value of eve", hosts, "eve", &e);
    opts.stored = &store;
    ok(secrets_wanted(&opts, &wish, &stored, &e) == 0, "a stored secret: %s", e.msg);
    static const char *const KEYS[] = {OF_FILE("\"bob\""), OF_FILE("\"eve\"")};
    for (size_t i = 0; i < ARRAY_LEN(KEYS); i++) {
        char *text = woken(stored, KEYS[i], &missing);
        is_int(take(text, &taken), 1, "the sandbox wakes with its secret");
        is_str(taken.items[0].value, "value of eve", "which is the stored one");
        is_str(taken.items[0].hosts[0], "a.org", "for its hosts");
        secrets_fini(&taken);
        secrets_wipe(&text);
    }
    ok(secret_store_remove(&store, own, &e) == 0, "removed: %s", e.msg);
    put("eve.json", "{\"B\": " OF_FILE("\"eve\"") "}");
    ok(secrets_wanted(&opts, &wish, &filed, &e) == 0, "one of the secrets file: %s", e.msg);
    char *text = woken(filed, OF_FILE("\"bob\""), &missing);
    is_int(take(text, &taken), 0, "a secret whose keys name the owner no more is not given");
    is_str(missing.names, "B", "and is missing");
    secrets_fini(&taken);
    secrets_wipe(&text);
    secrets_missing_fini(&missing);
    json_decref(stored);
    json_decref(filed);
    json_decref(names);
    json_decref(hosts);
    secret_store_fini(&store);
    opts.stored = NULL;
    opts.path = before;
}

static void test_no_file(void)
{
    json_t *secrets = wanted("[\"A\"]");
    struct secrets taken;
    struct secrets_missing missing;
    opts.path = NULL;
    char *text = secrets_egress(&opts, secrets, NULL, NULL, NULL, &missing);
    is_int(take(text, &taken), 0, "a daemon that has none any more still starts it");
    is_str(missing.names, "A", "and says so");
    ok(strstr(missing.why, "--secrets FILE") != NULL, "and why: %s", missing.why);
    secrets_fini(&taken);
    secrets_wipe(&text);
    secrets_missing_fini(&missing);
    json_decref(secrets);
    ok(!secrets_egress(&opts, NULL, NULL, NULL, NULL, &missing), "none for who has none");
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    char *path auto_free = str_printf("%s/secrets.json", dir);
    char *file auto_free =
        str_printf("{\"A\": {\"file\": \"%s/value\", \"hosts\": [\"a.example.com\"]}, "
                   "\"B\": {\"env\": \"TEST_B\", \"hosts\": [\"*.example.com\"]}}",
                   dir);
    put("secrets.json", file);
    put("value", QUOTED "\n");
    setenv("TEST_B", "of the environment", 1);
    opts = (struct secrets_opts){.path = path, .trust = "/some/file.pem"};
    test_text();
    test_rules();
    test_owners();
    test_no_file();
    dir_remove(dir, NULL);
    return tap_done();
}
