// SPDX-License-Identifier: Apache-2.0
// Signatures of URLs, with the vectors that E2B's SDKs are tested with.
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/proxy/proxy.h"
#include "tests/lib/harness/tap.h"

#define TOKEN   "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0"
#define BY_USER "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E"
#define NO_USER "v1_SnvZASdG5vD8p9rpaldX3434NfwgRVsYsvzCBL6oZbc"

int main(void)
{
    static const char *const BAD[] = {
        "",
        "v1_",
        "v2_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E",
        "gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E",
        "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6",
        "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6I",
        "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E=",
        "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr!E",
    };
    ok(proxy_signed_matches(BY_USER, "hello.txt", "read", "user", TOKEN, NULL), "with a user");
    ok(proxy_signed_matches(NO_USER, "hello.txt", "read", "", TOKEN, NULL), "without one");
    ok(!proxy_signed_matches(NO_USER, "hello.txt", "write", "", TOKEN, NULL), "to write");
    ok(!proxy_signed_matches(NO_USER, "hello.txt", "read", "", TOKEN, "9"), "with an expiry");
    ok(!proxy_signed_matches(NO_USER, "hello.txt", "read", "", "x" TOKEN, NULL), "another token");
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        ok(!proxy_signed_matches(BAD[i], "hello.txt", "read", "user", TOKEN, NULL), "\"%s\"",
           BAD[i]);
    return tap_done();
}
