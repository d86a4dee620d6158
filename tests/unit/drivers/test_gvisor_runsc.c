// SPDX-License-Identifier: Apache-2.0
// Only the pinned build of runsc is used.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/runsc.h"
#include "sandbox-backend/drivers/gvisor/runsc_pin.h"
#include "sandbox-backend/keys/sha256.h"
#include "tests/lib/harness/tap.h"

static void test_another_build(void)
{
    struct err e = ERR_INIT;
    char *path auto_free = runsc_find("/bin/true", &e);
    ok(!path && e.code == ERR_PRECONDITION, "another program is refused");
    ok(strstr(e.msg, "/bin/true is not the build of runsc") && strstr(e.msg, RUNSC_VERSION) &&
           strstr(e.msg, "make runsc"),
       "with the file, the version and what to do: %s", e.msg);
}

static void test_nothing_there(void)
{
    struct err e = ERR_INIT;
    char *path auto_free = runsc_find("/nonexistent/runsc", &e);
    ok(!path && e.code == ERR_NOT_FOUND, "a given path must exist: %s", e.msg);
    e = ERR_INIT;
    path = runsc_find(NULL, &e);
    ok(!path && e.code == ERR_NOT_FOUND && strstr(e.msg, "make runsc"),
       "without one beside the program: %s", e.msg);
    e = ERR_INIT;
    path = runsc_find("/tmp", &e);
    ok(!path && e.code != ERR_NONE, "a directory is none: %s", e.msg);
}

static void test_pin(void)
{
    struct sha256 digest;
    ok(sha256_from_hex(RUNSC_SHA256, &digest), "the pin has a hash of %d digits", SHA256_HEX_CHARS);
    ok(str_starts(RUNSC_SUM, "h1:"), "and the sum of a module");
}

int main(void)
{
    test_pin();
    test_another_build();
    test_nothing_there();
    return tap_done();
}
