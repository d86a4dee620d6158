// SPDX-License-Identifier: Apache-2.0
// A failed attempt at gVisor's part is remembered until something changes.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/gvisor/attempt.h"
#include "tests/lib/harness/tap.h"

static char dir[] = "/tmp/cubby-test-XXXXXX";

static void fail_with(enum err_code code)
{
    struct err why = ERR_INIT;
    err_set(&why, code, "the \"host\" lacks it");
    attempt_failed(dir, &why);
}

// Say which reason a new attempt would be refused with: NULL, that of fail_with, or another one.
static const char *reason(void)
{
    char *found auto_free = attempt_reason(dir);
    if (!found)
        return NULL;
    return str_eq(found, "the \"host\" lacks it") ? "that" : "another";
}

static void put(const char *name, const char *text, mode_t mode)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    struct err e = ERR_INIT;
    ok(file_replace(path, text, strlen(text), mode, &e) == 0, "writes %s: %s", name, e.msg);
}

// Change a word of the record.
static void edit(const char *word, const char *by)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/" ATTEMPT_FILE, dir);
    ok(file_read(path, 8192, &text, NULL) == 0, "the record is there");
    const char *at = strstr(buf_str(&text), word);
    ok(at != NULL, "and has %s", word);
    if (!at)
        return;
    char *changed auto_free =
        str_printf("%.*s%s%s", (int)(at - buf_str(&text)), buf_str(&text), by, at + strlen(word));
    put(ATTEMPT_FILE, changed, 0644);
}

static void test_remembering(void)
{
    ok(!reason(), "nothing has failed yet");
    fail_with(ERR_INTERNAL);
    ok(str_eq(reason(), "that"), "the reason is kept");
    attempt_forget(dir);
    ok(!reason(), "and forgotten");
    attempt_forget(dir);
}

static void test_what_may_pass(void)
{
    static const enum err_code CODES[] = {ERR_CANCELED, ERR_TIMEOUT, ERR_NO_SPACE, ERR_BUSY,
                                          ERR_CONFLICT};
    for (size_t i = 0; i < ARRAY_LEN(CODES); i++) {
        fail_with(CODES[i]);
        ok(!reason(), "code %d may pass", (int)CODES[i]);
    }
}

static void test_changes(void)
{
    static const char *const WORDS[] = {"Cubby ", "runsc ", "kernel ", "user ", "\"format\":1"};
    static const char *const BY[] = {"Cubby 9", "runsc 9", "kernel 9", "user 9", "\"format\":2"};
    for (size_t i = 0; i < ARRAY_LEN(WORDS); i++) {
        fail_with(ERR_PRECONDITION);
        ok(reason() != NULL, "it is remembered");
        edit(WORDS[i], BY[i]);
        ok(!reason(), "until %schanges", WORDS[i]);
    }
    put(ATTEMPT_FILE, "{\"format\":", 0644);
    ok(!reason(), "a damaged record counts for nothing");
}

static void test_another_tool(void)
{
    setenv("PATH", dir, 1);
    put("mkfs.erofs", "#!/bin/sh\n", 0755);
    fail_with(ERR_INTERNAL);
    ok(reason() != NULL, "it is remembered");
    put("mkfs.erofs", "#!/bin/sh\nexit 0\n", 0755);
    ok(!reason(), "until mkfs.erofs is another one");
}

int main(void)
{
    struct err e = ERR_INIT;
    if (!mkdtemp(dir))
        return 1;
    test_remembering();
    test_what_may_pass();
    test_changes();
    test_another_tool();
    ok(dir_remove(dir, &e) == 0, "removes the directory: %s", e.msg);
    return tap_done();
}
