// SPDX-License-Identifier: Apache-2.0
// The users and groups of a guest.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/users.h"
#include "tests/lib/harness/tap.h"

static void write_file(const char *dir, const char *name, const char *text)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    struct err e = ERR_INIT;
    ok(file_replace(path, text, strlen(text), 0644, &e) == 0, "write %s", name);
}

static void test_users(const char *dir)
{
    write_file(dir, "passwd",
               "root:x:0:0:root:/root:/bin/bash\n"
               "broken line\n"
               "x:x:notanumber:1::/:\n"
               "ann:x:1000:1001:Ann,,,:/home/ann:/bin/sh\n"
               "nohome:x:7:8");
    write_file(dir, "group",
               "root:x:0:\nsudo:x:27:bob,ann\nann:x:1001:ann\nanna:x:5:anna\nlast:x:9:ann");
    struct users *u = users_new(dir);
    struct user got;
    struct err e = ERR_INIT;
    ok(users_find(u, "ann", &got, &e) == 0, "ann is found");
    is_int(got.uid, 1000, "uid");
    is_str(got.home, "/home/ann", "home");
    is_int(got.group_count, 3, "groups");
    ok(got.groups[0] == 1001 && got.groups[1] == 27 && got.groups[2] == 9, "their numbers");
    ok(users_find(u, "nohome", &got, &e) == 0 && str_eq(got.home, "/"), "no home is /");
    ok(users_find(u, "x", &got, &e) < 0 && e.code == ERR_NOT_FOUND, "a bad number is no user");
    ok(users_find(u, "", &got, NULL) < 0, "nobody has no name");
    ok(users_find(u, "1000", &got, &e) == 0 && str_eq(got.name, "ann"), "a number of passwd");
    is_int(got.group_count, 3, "has the user's groups");
    ok(users_find(u, "4321", &got, &e) == 0 && got.uid == 4321 && got.gid == 0, "another number");
    is_str(got.home, "/", "has no home");
    ok(users_find(u, "ann:sudo", &got, &e) == 0 && got.uid == 1000 && got.gid == 27, "a group");
    is_int(got.group_count, 1, "is the only one");
    ok(users_find(u, "1000:55", &got, &e) == 0 && got.gid == 55, "a group by number");
    ok(users_find(u, "ann:none", &got, NULL) < 0, "an unknown group");
    ok(users_find(u, "-1", &got, NULL) < 0 && users_find(u, ":5", &got, NULL) < 0, "no users");
    is_str(users_name(u, 1000), "ann", "name of 1000");
    is_str(users_group_name(u, 27), "sudo", "name of group 27");
    ok(users_name(u, 4242) == NULL, "no name");
    write_file(dir, "passwd", "carl:x:3:3::/c:\n");
    ok(users_find(u, "carl", &got, &e) == 0, "a changed file is read again");
    ok(users_find(u, "ann", &got, NULL) < 0, "and what was there is gone");
    users_free(u);
    u = users_new("/nonexistent");
    ok(users_find(u, "root", &got, NULL) < 0, "no database, no users");
    users_free(u);
}

static void test_groups(const char *dir)
{
    write_file(dir, "passwd", "user:x:1000:1000::/home/user:/bin/sh\nstranger:x:5:5::/:/bin/sh\n");
    write_file(dir, "group",
               "root:x:0:\n"
               "user:x:1000:user\n"
               "no group at all\n"
               "sudo:x:27:other,user\n"
               "video:x:44:users,userx,xuser\n"
               "bad:x:4x:user\n"
               "none:x::user\n"
               "large:x:4294967295:user\n"
               "docker:x:999:user,other");
    struct users *u = users_new(dir);
    struct user got;
    ok(users_find(u, "user", &got, NULL) == 0, "user is found");
    is_int(got.group_count, 3, "malformed lines and the number that means none are left out");
    ok(got.groups[0] == 1000 && got.groups[1] == 27 && got.groups[2] == 999, "own group first");
    ok(users_find(u, "stranger", &got, NULL) == 0 && got.group_count == 1, "of a stranger");
    ok(users_find(u, "4294967295", &got, NULL) < 0, "the number that means none is no user");
    users_free(u);
}

int main(void)
{
    char dir[] = "/tmp/test-users-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    test_users(dir);
    test_groups(dir);
    ok(dir_remove(dir, NULL) == 0, "cleaned up");
    return tap_done();
}
