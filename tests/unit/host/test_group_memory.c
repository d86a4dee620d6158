// SPDX-License-Identifier: Apache-2.0
// The memory that control groups leave to a program. Directories of the test stand for the groups.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/host/meminfo.h"
#include "tests/lib/harness/tap.h"

static char top[] = "/tmp/cubby-groups-XXXXXX";

static char proc[sizeof top + sizeof "/proc"];

// `name` below the top, with its directories.
static void put(const char *name, const char *text)
{
    char *path auto_free = str_printf("%s/%s", top, name);
    char *parent auto_free = xstrdup(path);
    struct err e = ERR_INIT;
    *strrchr(parent, '/') = '\0';
    if (dir_make(parent, 0700, &e) < 0 || file_replace(path, text, strlen(text), 0600, &e) < 0)
        ok(false, "%s", e.msg);
}

static void is_left(int64_t limit, int64_t available, const char *what)
{
    struct group_memory g;
    group_memory_read(&g);
    is_int(g.limit, limit, "%s: the limit", what);
    is_int(g.available, available, "%s: what is left", what);
}

static void begin(const char *cgroup, const char *mount_options)
{
    char *mounts auto_free = str_printf("40 20 0:26 / %s/fs rw - %s\n", top, mount_options);
    snprintf(proc, sizeof proc, "%s/proc", top);
    put("proc/cgroup", cgroup);
    put("proc/mountinfo", mounts);
    group_memory_use(proc);
}

static void test_version_2(void)
{
    begin("0::/unit/job\n", "cgroup2 cgroup2 rw");
    put("fs/cgroup.procs", "1\n");
    put("fs/unit/cgroup.procs", "");
    put("fs/unit/job/cgroup.procs", "");
    is_left(INT64_MAX, INT64_MAX, "groups that do not count memory");
    put("fs/unit/job/memory.max", "max\n");
    put("fs/unit/job/memory.current", "100\n");
    put("fs/unit/memory.max", "max\n");
    is_left(INT64_MAX, INT64_MAX, "none has a limit");
    put("fs/unit/memory.max", "10000\n");
    put("fs/unit/memory.current", "4000\n");
    is_left(10000, 6000, "the one above has");
    put("fs/unit/memory.stat", "anon 1500\nfile 2500\nkernel 9\nshmem 700\ninactive_file 1000\n"
                               "active_file 500\nslab_reclaimable 50\nworkingset_active_file 7\n");
    is_left(10000, 7550, "what can be dropped is free, what is in a tmpfs is not");
    put("fs/unit/job/memory.high", "9000\n");
    put("fs/unit/job/memory.current", "3000\n");
    is_left(9000, 6000, "the smallest limit, and the least that is left");
    put("fs/unit/job/memory.current", "9500\n");
    is_left(9000, 0, "over it: nothing is left");
    put("fs/unit/job/memory.current", "nonsense\n");
    is_left(10000, 7550, "one that does not tell is as one without a limit");
}

static void test_above_the_tree(void)
{
    put("memory.max", "5\n"); // beside the mount point, which no group is
    put("memory.current", "5\n");
    begin("0::/unit\n", "cgroup2 cgroup2 rw");
    is_left(10000, 7550, "a file above the tree is no group's");
}

static void test_version_1(void)
{
    begin("4:memory:/unit/one\n3:cpu:/\n0::/\n", "cgroup cgroup rw,memory");
    put("fs/unit/one/cgroup.procs", "");
    put("fs/unit/one/memory.limit_in_bytes", "9223372036854771712\n");
    put("fs/unit/one/memory.usage_in_bytes", "77\n");
    is_left(INT64_MAX, INT64_MAX, "what version 1 says when there is no limit");
    put("fs/unit/memory.limit_in_bytes", "8000\n");
    put("fs/unit/memory.usage_in_bytes", "5000\n");
    put("fs/unit/memory.stat", "inactive_file 1\nactive_file 1\ntotal_inactive_file 700\n"
                               "total_active_file 300\n");
    is_left(8000, 4000, "with the groups below it");
}

static void test_meminfo(void)
{
    struct meminfo m;
    struct err e = ERR_INIT;
    char *path auto_free = str_printf("%s/meminfo", top);
    put("meminfo", "MemTotal: 100 kB\nMemAvailable: 50 kB\n");
    meminfo_use(path);
    is_int(meminfo_read(&m, &e), 0, "a host that has more");
    ok(m.total == 8000 && m.available == 4000 && m.by_group, "the group decides");
    put("meminfo", "MemTotal: 100 kB\nMemAvailable: 3 kB\n");
    is_int(meminfo_read(&m, &e), 0, "a host that has less left");
    ok(m.total == 8000 && m.available == 3072 && !m.by_group, "the host decides");
    put("meminfo", "MemTotal: 6 kB\nMemAvailable: 5 kB\n");
    is_int(meminfo_read(&m, &e), 0, "a limit that is more than there is");
    ok(m.total == 6144 && m.available == 4000 && m.by_group, "no more than there is");
    is_int(group_memory_total(), 8000, "what there is at most");
    meminfo_use(NULL);
    group_memory_use("/nowhere");
    is_left(INT64_MAX, INT64_MAX, "a host without control groups");
    ok(group_memory_total() > 8000, "then all that the machine has");
}

int main(void)
{
    if (!ok(mkdtemp(top) != NULL, "a place"))
        return tap_done();
    test_version_2();
    test_above_the_tree();
    test_version_1();
    test_meminfo();
    dir_remove(top, NULL);
    return tap_done();
}
