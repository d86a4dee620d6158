// SPDX-License-Identifier: Apache-2.0
// Membership in groups.
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/groups.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "tests/lib/harness/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char TEXT[] = "root:x:0:\n"
                           "user:x:1000:user\n"
                           "no group at all\n"
                           "sudo:x:27:other,user\n"
                           "video:x:44:users,userx,xuser\n"
                           "bad:x:4x:user\n"
                           "none:x::user\n"
                           "large:x:4294967295:user\n"
                           "docker:x:999:user,other";

static void test_groups(void)
{
    char dir[] = "/tmp/test-groups-XXXXXX";
    ok(mkdtemp(dir) != NULL, "a directory");
    char *path auto_free = str_printf("%s/group", dir);
    struct err e = ERR_INIT;
    is_int(file_replace(path, TEXT, strlen(TEXT), 0600, &e), 0, "a file");
    gid_t got[8];
    is_int((long long)groups_of(path, "user", 1000, got, ARRAY_LEN(got)), 3, "of the user");
    ok(got[0] == 1000 && got[1] == 27 && got[2] == 999, "their own, then as in the file");
    is_int((long long)groups_of(path, "user", 1000, got, 2), 2, "no more than there is room for");
    is_int((long long)groups_of(path, "stranger", 5, got, ARRAY_LEN(got)), 1, "of a stranger");
    is_int((long long)got[0], 5, "only their own");
    unlink(path);
    is_int((long long)groups_of(path, "user", 1000, got, ARRAY_LEN(got)), 1, "of no file");
    rmdir(dir);
}

int main(void)
{
    test_groups();
    return tap_done();
}
