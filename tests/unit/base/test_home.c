// SPDX-License-Identifier: Apache-2.0
// The paths of the state directory and of the parts of the installation.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

static void test_home(const char *dir)
{
    struct err e = ERR_INIT;
    char *want auto_free = str_printf("%s/state", dir);
    char *dotted auto_free = str_printf("%s/../%s/state", dir, str_base(dir));
    setenv("CUBBY_HOME", dotted, 1);
    char *home auto_free = home_open(&e);
    is_str(home, want, "made, and its path is absolute and plain: %s", e.msg);
    struct stat st;
    ok(stat(want, &st) == 0 && (st.st_mode & 0777) == 0700, "for its owner alone");
    char *path auto_free = home_path(want, "cubbyd.sock");
    ok(str_ends(path, "/state/cubbyd.sock"), "a path in it");
    char *file auto_free = str_printf("%s/file", dir);
    ok(file_write_atomic(file, "", 0, 0600, &e) == 0, "a file");
    setenv("CUBBY_HOME", file, 1);
    ok(!home_open(&e) && err_is(&e), "is no directory: %s", e.msg);
    char deep[101];
    memset(deep, 'd', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    char *too_long auto_free = str_printf("%s/%s", dir, deep);
    setenv("CUBBY_HOME", too_long, 1);
    e = ERR_INIT;
    ok(!home_open(&e) && e.code == ERR_INVALID, "sockets below would not fit: %s", e.msg);
}

static void test_self(void)
{
    struct err e = ERR_INIT;
    char *found auto_free = self_program("test_home", &e);
    ok(found && access(found, X_OK) == 0, "a program beside this one");
    ok(!self_program("no-such-program", &e) && e.code == ERR_PRECONDITION, "none: %s", e.msg);
    e = ERR_INIT;
    ok(!self_guest("no-such-part", &e) && err_is(&e), "nor a guest part: %s", e.msg);
}

int main(void)
{
    char dir[] = "/tmp/test-home-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    test_home(dir);
    test_self();
    struct err e = ERR_INIT;
    is_int(dir_remove(dir, &e), 0, "cleaned up");
    return tap_done();
}
