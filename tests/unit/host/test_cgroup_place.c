// SPDX-License-Identifier: Apache-2.0
// The cgroup place, as found from the files of /proc, and the names of the control groups in it.
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/cgroup.h"
#include "tests/lib/harness/tap.h"

static const char V1[] =
    "12:cpu,cpuacct:/a/b\n7:pids:/\n5:devices:/x\n4:memory:/docker/one/job\n0::/\n";
static const char V1_MOUNTS[] =
    "30 20 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "32 30 0:28 /docker/one /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";

static void check(const char *cgroup, const char *mounts, const char *want, const char *what)
{
    struct cgroup_place p;
    struct buf got auto_buf = BUF_INIT;
    cgroup_place_parse(&p, cgroup, mounts);
    for (int i = 0; i < p.count; i++)
        buf_printf(&got, "%d:%s:%s;", p.trees[i].version, cgroup_names(p.trees[i].controllers),
                   p.trees[i].dir);
    is_str(buf_str(&got), want, "%s", what);
    cgroup_place_fini(&p);
}

static void test_parse(void)
{
    check("", "", "", "nothing");
    check(V1, "", "", "nothing is mounted");
    check(V1, V1_MOUNTS,
          "1:cpu:/sys/fs/cgroup/cpu,cpuacct/a/b;1:pids:/sys/fs/cgroup/pids;"
          "1:memory:/sys/fs/cgroup/memory/job;",
          "version 1, also below a mount's own root");
    check("0::/user.slice/x\n", "40 20 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n",
          "2:none:/sys/fs/cgroup/user.slice/x;", "version 2; what it has is asked later");
    check("4:memory:/elsewhere\n", "32 30 0:28 /docker/one /m rw - cgroup cgroup rw,memory\n", "",
          "a group outside of what is mounted");
    check("4:memory:/docker/onemore\n", "32 30 0:28 /docker/one /m rw - cgroup cgroup rw,memory\n",
          "", "a name that only begins the same");
    check("garbage\n:\n1:\n", "short\n- - -\n1 2 3 4 5 - cgroup\n", "", "what is no such line");
}

static void write_file(const char *dir, const char *name, const char *text)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    struct err e = ERR_INIT;
    if (file_replace(path, text, strlen(text), 0600, &e) != 0)
        ok(false, "%s", e.msg);
}

// A directory that stands for a group of version 2 which passes on two of three controllers.
static void test_probe(void)
{
    char dir[] = "/tmp/cubby-cgroup-XXXXXX";
    if (!ok(mkdtemp(dir) != NULL, "a directory"))
        return;
    write_file(dir, "cgroup.controllers", "cpuset cpu io memory pids\n");
    write_file(dir, "cgroup.subtree_control", "memory pids\n");
    write_file(dir, "cgroup.procs", "1\n2\n");
    char *mounts auto_free = str_printf("40 20 0:26 / %s rw - cgroup2 cgroup2 rw\n", dir);
    struct cgroup_place p;
    cgroup_place_parse(&p, "0::/\n", mounts);
    cgroup_place_probe(&p, false);
    is_int(cgroup_place_controllers(&p), CGROUP_ALL, "what there might be");
    cgroup_place_fini(&p);
    cgroup_place_parse(&p, "3:memory:/no/such\n0::/none\n", mounts);
    cgroup_place_probe(&p, true);
    is_int(p.count, 0, "a tree that may not be written is none");
    cgroup_place_fini(&p);
    dir_remove(dir, NULL);
}

static void test_names(void)
{
    char *one auto_free = cgroup_name("/home/a/sandboxes", "abcdefghij0123456789");
    char *other auto_free = cgroup_name("/home/b/sandboxes", "abcdefghij0123456789");
    ok(str_starts(one, "cubby-") && str_ends(one, "-abcdefgh"), "whose it is: %s", one);
    ok(!str_eq(one, other), "and of which home");
    json_t *record = json_pack("[{s:s, s:i}, {s:s, s:i}]", "dir", "/sys/fs/cgroup/other",
                               "controllers", 1, "dir", "/tmp/not-there/x", "controllers", 9);
    struct cgroup g;
    cgroup_from_json(&g, record, "x");
    is_int(g.groups.count, 1, "a record's groups of another name are left alone");
    is_int(g.groups.trees[0].controllers, 1, "and unknown controllers are not taken for known");
    cgroup_remove(&g);
    json_decref(record);
    record = json_pack("[{s:s, s:i}]", "dir", "/tmp/not-there/cubby-1-abcdefghij0123456789",
                       "controllers", 1);
    cgroup_from_json(&g, record, "cubby-1-abcdefgh");
    is_int(g.groups.count, 1, "one of an older daemon, which wrote all of the id, is known");
    cgroup_remove(&g);
    json_decref(record);
}

static void test_named(void)
{
    for (unsigned all = 0; all <= CGROUP_ALL; all++)
        is_int(cgroup_named(cgroup_names(all)), all, "%s", cgroup_names(all));
    is_int(cgroup_named(NULL), 0, "no names");
    is_int(cgroup_named("memory and"), 0, "other names");
}

int main(void)
{
    test_named();
    test_parse();
    test_probe();
    test_names();
    return tap_done();
}
