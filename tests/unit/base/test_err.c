// SPDX-License-Identifier: Apache-2.0
// The error type and its tables.
#include <errno.h>
#include <string.h>

#include "sandbox-backend/base/err.h"
#include "tests/lib/harness/tap.h"

static void test_set(void)
{
    struct err e = ERR_INIT;
    ok(!err_is(&e), "nothing yet");
    is_int(err_set(&e, ERR_INVALID, "bad %s %d", "thing", 7), -1, "setting returns -1");
    is_str(e.msg, "bad thing 7", "the message");
    is_int(err_set(&e, ERR_INTERNAL, "later"), -1, "a second error");
    ok(e.code == ERR_INVALID && strcmp(e.msg, "bad thing 7") == 0, "does not replace the first");
    is_int(err_set(NULL, ERR_INVALID, "x"), -1, "NULL is fine");
    is_int(err_wrap(&e, "while %s", "testing"), -1, "wrapping returns -1");
    is_str(e.msg, "while testing: bad thing 7", "and puts what was done in front");
    struct err none = ERR_INIT;
    err_wrap(&none, "x");
    ok(!err_is(&none) && none.msg[0] == '\0', "nothing is wrapped when nothing is wrong");
}

static void test_sys(void)
{
    struct err e = ERR_INIT;
    err_sys(&e, ENOENT, "open %s", "/x");
    is_str(e.msg, "open /x: No such file or directory", "errno's text");
    ok(e.code == ERR_NOT_FOUND && e.sys == ENOENT, "its code and number");
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    struct err longer = ERR_INIT;
    err_sys(&longer, ENAMETOOLONG, "stat /home/user/%s", name);
    ok(longer.code == ERR_INVALID && strstr(longer.msg, "may have 255 bytes"), "%s", longer.msg);
    ok(strlen(longer.msg) < 150, "which is not mostly the name");
    static const struct {
        int sys;
        enum err_code code;
    } CASES[] = {{ENOSPC, ERR_NO_SPACE},   {EDQUOT, ERR_NO_SPACE},
                 {EACCES, ERR_DENIED},     {ECONNREFUSED, ERR_UNAVAILABLE},
                 {ETIMEDOUT, ERR_TIMEOUT}, {EEXIST, ERR_EXISTS},
                 {EMFILE, ERR_LIMIT},      {EIO, ERR_INTERNAL},
                 {EINVAL, ERR_INVALID}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        is_int(err_from_errno(CASES[i].sys), CASES[i].code, "%s", strerror(CASES[i].sys));
}

static void test_long(void)
{
    char text[2 * ERR_MSG_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct err e = ERR_INIT;
    err_set(&e, ERR_INTERNAL, "%s", text);
    is_int(strlen(e.msg), ERR_MSG_BYTES - 1, "a long message is cut");
    err_wrap(&e, "%s", text);
    is_int(strlen(e.msg), ERR_MSG_BYTES - 1, "also when wrapped");
    struct err sys = ERR_INIT;
    err_sys(&sys, ENOENT, "%s", text);
    is_int(strlen(sys.msg), ERR_MSG_BYTES - 1, "and with errno's text");
}

static void test_tables(void)
{
    is_int(err_http_status(ERR_NOT_FOUND), 404, "HTTP of not found");
    is_int(err_http_status(ERR_NONE), 500, "HTTP of a code that is none");
    is_str(err_connect_name(ERR_LIMIT), "resource_exhausted", "Connect's name");
    is_int(err_from_connect_name("resource_exhausted"), ERR_LIMIT,
           "and back, to the first of many");
    is_int(err_from_connect_name("data_loss"), ERR_UNKNOWN, "a name without a row");
    is_int(err_from_http_status(404), ERR_NOT_FOUND, "from 404");
    is_int(err_from_http_status(418), ERR_INVALID, "from an unknown 4xx");
    is_int(err_from_http_status(599), ERR_UNKNOWN, "from an unknown 5xx");
}

int main(void)
{
    test_set();
    test_sys();
    test_long();
    test_tables();
    return tap_done();
}
