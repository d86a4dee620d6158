// SPDX-License-Identifier: Apache-2.0
// Signed URLs: the two vectors of E2B's SDKs, and the signatures that are refused.
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/envd/files/files.h"
#include "tests/lib/harness/tap.h"

#define TOKEN "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"

static const struct signature_claim READ_AS_USER = {
    .path = "hello.txt", .operation = "read", .username = "user"};

static void makes(const struct signature_claim *claim, const char *want)
{
    char got[SIGNATURE_BYTES];
    signature_make(got, claim, TOKEN);
    is_str(got, want, "%s %s as \"%s\"", claim->operation, claim->path, claim->username);
}

static void checks(const char *given, const struct signature_claim *claim, int64_t now,
                   enum err_code code, const char *message)
{
    struct err e = ERR_INIT;
    int rc = signature_check(given, claim, TOKEN, now, &e);
    is_int(rc, code == ERR_NONE ? 0 : -1, "%s", given ? given : "no signature");
    is_int(e.code, code, "its code");
    is_str(e.msg, message, "its message");
}

static void test_vectors(void)
{
    struct signature_claim claim = READ_AS_USER;
    makes(&claim, "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
    claim.username = "";
    makes(&claim, "v1_SnvZASdG5vD8p9rpaldX3434NfwgRVsYsvzCBL6oZbc");
}

static void test_checks(void)
{
    struct signature_claim claim = READ_AS_USER;
    const char *right = "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";
    checks(right, &claim, 1, ERR_NONE, "");
    checks(NULL, &claim, 1, ERR_UNAUTHENTICATED, "missing signature query parameter");
    checks("", &claim, 1, ERR_UNAUTHENTICATED, "invalid signature");
    checks("v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6F", &claim, 1, ERR_UNAUTHENTICATED,
           "invalid signature");
    claim.operation = "write";
    checks(right, &claim, 1, ERR_UNAUTHENTICATED, "invalid signature");
}

static void test_expiration(void)
{
    struct signature_claim claim = READ_AS_USER;
    char right[SIGNATURE_BYTES];
    claim.expires = "1700000000";
    signature_make(right, &claim, TOKEN);
    checks(right, &claim, 1700000000, ERR_NONE, "");
    checks(right, &claim, 1700000001, ERR_UNAUTHENTICATED, "signature is already expired");
    claim.expires = "1800000000";
    checks(right, &claim, 1, ERR_UNAUTHENTICATED, "invalid signature");
    claim.expires = "soon";
    checks(right, &claim, 1, ERR_INVALID, "signature_expiration must be a number of seconds");
    claim.expires = NULL;
    checks(right, &claim, 1, ERR_UNAUTHENTICATED, "invalid signature");
}

int main(void)
{
    test_vectors();
    test_checks();
    test_expiration();
    return tap_done();
}
