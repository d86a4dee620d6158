// SPDX-License-Identifier: Apache-2.0
// A certificate authority in the files of a guest: added, replaced, removed.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/guest/renewal.h"
#include "tests/lib/harness/tap.h"

#define PEM(what) "-----BEGIN CERTIFICATE-----\n" what "\n-----END CERTIFICATE-----\n"

static char root[] = "/tmp/cubby-trust-XXXXXX";

static bool has(const char *path, const char *wanted)
{
    char *full auto_free = str_printf("%s%s", root, path);
    struct buf text auto_buf = BUF_INIT;
    return file_read(full, 1 << 20, &text, NULL) == 0 && strstr(buf_str(&text), wanted);
}

static void put(const char *path, const char *text)
{
    char *full auto_free = str_printf("%s%s", root, path);
    char *dir auto_free = xstrndup(full, (size_t)(strrchr(full, '/') - full));
    dir_make(dir, 0755, NULL);
    file_replace(full, text, strlen(text), 0644, NULL);
}

static bool is_there(const char *path)
{
    char *full auto_free = str_printf("%s%s", root, path);
    struct stat st;
    return lstat(full, &st) == 0;
}

static void test_check(void)
{
    struct err e = ERR_INIT;
    char *long_one auto_free = str_printf(PEM("%0*d"), TRUST_MAX_BYTES, 1);
    ok(trust_check(PEM("a"), NULL) == 0, "a certificate");
    ok(trust_check("-----BEGIN CERTIFICATE-----\nabc", &e) < 0 && e.code == ERR_INVALID,
       "half of one");
    ok(trust_check("words", NULL) < 0, "none");
    ok(trust_check(long_one, NULL) < 0, "too much");
}

static void test_install(void)
{
    struct err e = ERR_INIT;
    put(TRUST_BUNDLE, PEM("system"));
    put("/usr/lib/ssl/openssl.cnf", "");
    ok(trust_install(root, "", &e) == 0 && !is_there(TRUST_CERTIFICATE), "nothing to take away");
    ok(trust_install(root, PEM("first"), &e) == 0, "installed: %s", e.msg);
    ok(has(TRUST_BUNDLE, "system") && has(TRUST_BUNDLE, "first") && has(TRUST_CERTIFICATE, "first"),
       "beside the system's, and alone");
    ok(!has(TRUST_CERTIFICATE, "system"), "alone");
    ok(is_there(TRUST_DEFAULT), "OpenSSL's own default leads there");
    ok(trust_install(root, PEM("second"), &e) == 0 && has(TRUST_BUNDLE, "second") &&
           !has(TRUST_BUNDLE, "first") && has(TRUST_BUNDLE, "system"),
       "replaced");
    ok(trust_install(root, "", &e) == 0 && has(TRUST_BUNDLE, "system") &&
           !has(TRUST_BUNDLE, "second") && !is_there(TRUST_CERTIFICATE),
       "taken away");
}

static void test_bare_system(void)
{
    struct err e = ERR_INIT;
    dir_remove(root, NULL);
    mkdir(root, 0755);
    ok(trust_install(root, PEM("only"), &e) == 0 && has(TRUST_BUNDLE, "only"),
       "a system without any: %s", e.msg);
}

int main(void)
{
    if (!mkdtemp(root))
        return 1;
    test_check();
    test_install();
    test_bare_system();
    dir_remove(root, NULL);
    return tap_done();
}
