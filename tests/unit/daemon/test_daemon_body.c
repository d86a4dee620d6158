// SPDX-License-Identifier: Apache-2.0
// Misspelt members, the journal's ring, the end of a file.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/body.h"
#include "sandbox-backend/daemon/sandbox/journal.h"
#include "tests/lib/harness/tap.h"

static void test_near_miss(void)
{
    static const char *const KNOWN[] = {"templateID", "envVars", "allow_internet_access", NULL};
    static const struct {
        const char *name, *meant; // NULL: it is known; "": nothing is like it
    } CASES[] = {
        {"templateID", NULL},
        {"template_id", "templateID"},
        {"TemplateId", "templateID"},
        {"env-vars", "envVars"},
        {"envVar", ""},
        {"allowInternetAccess", "allow_internet_access"},
        {"other", ""},
        {"_", ""},
        {"", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct err e = ERR_INIT;
        json_t *object = json_pack("{s:i}", CASES[i].name, 1);
        int result = body__check_members(object, "x.", KNOWN, &e);
        ok(result == (CASES[i].meant ? -1 : 0), "\"%s\": %s", CASES[i].name, e.msg);
        ok(!CASES[i].meant || strstr(e.msg, CASES[i].meant), "it is told what was meant");
        json_decref(object);
        object = json_pack("{s:n}", CASES[i].name);
        bool misspelt = CASES[i].meant && *CASES[i].meant;
        ok(body__check_members(object, "x.", KNOWN, &e) == (misspelt ? -1 : 0),
           "\"%s\" that asks for nothing", CASES[i].name);
        json_decref(object);
    }
    struct err e = ERR_INIT;
    ok(body__check_members(NULL, "", KNOWN, &e) == 0, "nothing has no members");
}

static void test_journal(void)
{
    struct journal j = {0};
    enum journal_level level;
    for (int i = 0; i < JOURNAL_MAX + 50; i++)
        journal_add(&j, JOURNAL_INFO, "event %d", i);
    is_int((int)j.count, JOURNAL_MAX, "the last ones are kept");
    ok(str_eq(journal_at(&j, 0)->text, "event 50"), "the oldest of them first");
    ok(str_eq(journal_at(&j, JOURNAL_MAX - 1)->text, "event 249"), "the newest last");
    journal_fini(&j);
    for (int i = 0; i < 3; i++)
        journal_add(&j, JOURNAL_WARN, "event %d", i);
    ok(j.count == 3 && str_eq(journal_at(&j, 1)->text, "event 1"), "few are as they came");
    ok(j.room < JOURNAL_MAX, "and take little room");
    journal_fini(&j);
    ok(journal_level_parse("warn", &level) && level == JOURNAL_WARN, "a level by its name");
    ok(!journal_level_parse("loud", &level), "there is no such level");
}

static void test_tail(void)
{
    char path[] = "/tmp/cubby-test-tail.XXXXXX";
    char out[11];
    int fd auto_close = mkstemp(path);
    is_int((int)file_read_tail(path, out, 10), 0, "an empty file");
    fd_write_all(fd, "0123456789abcdef\r\n\n", 19, NULL);
    is_int((int)file_read_tail(path, out, 10), 7, "less the newlines");
    ok(str_eq(out, "9abcdef"), "the end: %s", out);
    fd_write_all(fd, "a\0b\0", 4, NULL);
    is_int((int)file_read_tail(path, out, 4), 4, "a NUL is a character of it");
    ok(str_eq(out, "a b "), "but ends no text: %s", out);
    unlink(path);
    ok(file_read_tail(path, out, 10) == 0 && !*out, "no file");
}

int main(void)
{
    test_near_miss();
    test_journal();
    test_tail();
    return tap_done();
}
