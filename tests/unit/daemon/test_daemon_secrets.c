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
#include "sandbox-backend/daemon/secrets/secrets.h"
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

static json_t *wanted(const char *names)
{
    struct err e = ERR_INIT;
    json_t *list = json_parse(names, strlen(names), &e);
    json_t *secrets = NULL;
    int rc = secrets_wanted(&opts, list, NULL, NULL, &secrets, &e);
    ok(rc == 0, "%s: %s", names, e.msg);
    json_decref(list);
    return secrets;
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
    char *text = secrets_egress(&opts, secrets, NULL, &missing);
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
    text = secrets_egress(&opts, secrets, NULL, &missing);
    take(text, &taken);
    is_str(taken.items[0].value, "another value", "what changed counts the next time");
    secrets_fini(&taken);
    secrets_wipe(&text);

    put("value", "short");
    text = secrets_egress(&opts, secrets, NULL, &missing);
    is_int(take(text, &taken), 1, "one that is of no use is left out");
    is_str(missing.names, "A", "and named");
    is_str(missing.why, "the secret's value must have 8 to 65536 bytes", "and why");
    secrets_fini(&taken);
    secrets_wipe(&text);
    secrets_missing_fini(&missing);
    put("value", QUOTED "\n");
    json_decref(secrets);
}

static void test_no_file(void)
{
    json_t *secrets = wanted("[\"A\"]");
    struct secrets taken;
    struct secrets_missing missing;
    opts.path = NULL;
    char *text = secrets_egress(&opts, secrets, NULL, &missing);
    is_int(take(text, &taken), 0, "a daemon that has none any more still starts it");
    is_str(missing.names, "A", "and says so");
    ok(strstr(missing.why, "--secrets FILE") != NULL, "and why: %s", missing.why);
    secrets_fini(&taken);
    secrets_wipe(&text);
    secrets_missing_fini(&missing);
    json_decref(secrets);
    ok(!secrets_egress(&opts, NULL, NULL, &missing), "none for who has none");
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
    test_no_file();
    dir_remove(dir, NULL);
    return tap_done();
}
