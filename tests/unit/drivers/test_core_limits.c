// SPDX-License-Identifier: Apache-2.0
// The control groups of a machine: which limits are written, and who counts as limited.
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/cgroup.h"
#include "sandbox-backend/drivers/host/core.h"
#include "tests/lib/harness/tap.h"

#define LIMIT_BYTES (64 << 20)

static char home[] = "/tmp/core-limits-XXXXXX";
static uv_loop_t loop;

// ---- swap, in directories that look like groups

static void put(const char *group, const char *file)
{
    char *path auto_free = str_printf("%s/%s/%s", home, group, file);
    ok(file_replace(path, "", 0, 0600, NULL) == 0, "%s", path);
}

static long long number_in(const char *dir, const char *file)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/%s", dir, file);
    if (file_read(path, 64, &text, NULL) < 0 || text.len == 0)
        return -1;
    return strtoll(buf_str(&text), NULL, 10);
}

// Make a group with these files; return which limits hold in it.
static unsigned limit_memory(const char *name, int version, bool no_swap, const char *const files[])
{
    char *dir auto_free = str_printf("%s/%s", home, name);
    const struct cgroup_place place = {
        .trees = {{.dir = home, .version = version, .controllers = CGROUP_MEMORY}}, .count = 1};
    const struct cgroup_limits limits = {.memory_bytes = LIMIT_BYTES, .no_swap = no_swap};
    struct cgroup g;
    ok(mkdir(dir, 0700) == 0, "%s", name);
    for (int i = 0; files[i]; i++)
        put(name, files[i]);
    cgroup_make(&g, &place, name, &limits);
    unsigned held = cgroup_place_controllers(&g.groups);
    cgroup_place_fini(&g.groups);
    return held;
}

static void test_swap(void)
{
    const char *const second[] = {"memory.max", "memory.swap.max", NULL};
    const char *const first[] = {"memory.limit_in_bytes", "memory.memsw.limit_in_bytes", NULL};
    const char *const without[] = {"memory.max", NULL};
    char *v2 auto_free = str_printf("%s/v2", home);
    char *v1 auto_free = str_printf("%s/v1", home);
    char *vm auto_free = str_printf("%s/vm", home);
    is_int(limit_memory("v2", 2, true, second), CGROUP_MEMORY, "version 2 holds");
    is_int(number_in(v2, "memory.max"), LIMIT_BYTES, "its memory");
    is_int(number_in(v2, "memory.swap.max"), 0, "and nothing of it is swapped out");
    is_int(limit_memory("v1", 1, true, first), CGROUP_MEMORY, "version 1 holds");
    is_int(number_in(v1, "memory.memsw.limit_in_bytes"), LIMIT_BYTES, "memory and swap together");
    is_int(limit_memory("none", 2, true, without), CGROUP_MEMORY, "a kernel that counts no swap");
    is_int(limit_memory("vm", 2, false, second), CGROUP_MEMORY, "only for who asks");
    is_int(number_in(vm, "memory.swap.max"), -1, "a microVM may be swapped out");
}

// ---- the memory that a group counts, in directories that look like groups

static int64_t memory_in(const char *name, int version, const char *stat, const char *swap)
{
    char *dir auto_free = str_printf("%s/%s", home, name);
    char *file auto_free = str_printf("%s/memory.stat", dir);
    char *swapped auto_free = str_printf("%s/memory.swap.current", dir);
    const struct cgroup g = {
        .groups = {.trees = {{.dir = dir, .version = version, .controllers = CGROUP_MEMORY}},
                   .count = 1}};
    ok(mkdir(dir, 0700) == 0, "%s", name);
    if (stat)
        ok(file_replace(file, stat, strlen(stat), 0600, NULL) == 0, "its figures");
    if (swap)
        ok(file_replace(swapped, swap, strlen(swap), 0600, NULL) == 0, "what is swapped out");
    return cgroup_memory_bytes(&g);
}

static void test_memory(void)
{
    const char *second = "anon 4096\nfile 8192\ninactive_anon 1\nanon_thp 2\n";
    const char *first = "cache 1\nrss 2\nrss_huge 3\nswap 4\ntotal_cache 5\ntotal_rss 8192\n"
                        "total_rss_huge 6\ntotal_swap 4096\n";
    is_int(memory_in("memory-2", 2, second, "1000\n"), 5096, "version 2");
    is_int(memory_in("memory-2-no-swap", 2, second, NULL), 4096, "a kernel that counts no swap");
    is_int(memory_in("memory-1", 1, first, NULL), 12288, "version 1");
    is_int(memory_in("memory-0", 2, NULL, NULL), -1, "no figures");
}

// ---- a first process that has ended

static bool limited;

static void on_limited(struct machine_core *core)
{
    (void)core;
    limited = true;
    uv_stop(&loop);
}

static void on_exit_(struct subproc *p, int status, void *ctx)
{
    (void)p;
    (void)status;
    (void)ctx;
    uv_stop(&loop);
}

static struct subproc *start(const char *script)
{
    struct err e = ERR_INIT;
    char *text auto_free = xstrdup(script);
    char name[] = "sh", option[] = "-c";
    char *argv[] = {name, option, text, NULL};
    const int fds[] = {-1, -1, -1};
    const struct spawn_opts opts = {.file = "/bin/sh", .argv = argv, .fds = fds, .fd_count = 3};
    struct subproc *p = subproc_start(&loop, &opts, on_exit_, NULL, &e);
    ok(p, "%s: %s", script, e.msg);
    return p;
}

// Return whether the group of the processor lets its processes wait for all others.
static bool is_idle(const json_t *record)
{
    size_t i;
    json_t *group;
    bool idle = false;
    json_array_foreach (json_object_get(record, "groups"), i, group) {
        const char *dir = json_string_value(json_object_get(group, "dir"));
        long long shares = number_in(dir, "cpu.shares"), weight = number_in(dir, "cpu.weight");
        idle |= number_in(dir, "cpu.idle") == 1 || shares == 2 || weight == 1;
    }
    return idle;
}

// `runsc create` ends within the time that a join takes.
static void test_first_has_ended(void)
{
    static const struct core_kind kind = {
        .process = "a test", .first_ends = true, .limited = on_limited};
    const struct cgroup_limits limits = {.memory_bytes = LIMIT_BYTES, .cpus = 1, .processes = 64};
    char id[] = "abcdefgh", dir[] = "/nonexistent/core-limits/abcdefgh";
    struct subproc *first = start("exit 0");
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(subproc_has_exited(first), "the first process has ended");
    struct machine_core core = {
        .kind = &kind, .loop = &loop, .id = id, .dir = dir, .background = true};
    core.netd = start("exec sleep 600");
    core_limits_start(&core, first, &limits);
    while (!limited)
        uv_run(&loop, UV_RUN_DEFAULT);
    json_t *record = core__limits_record(&core);
    is_str(json_string_value(json_object_get(record, "holds")),
           cgroup_names(cgroup_place_controllers(cgroup_place())), "the others are limited");
    ok(is_idle(record), "in the background");
    core_set_background(&core.machine, false);
    ok(!is_idle(record), "and out of it at a hand-out");
    json_decref(record);
    subproc_kill(core.netd);
    while (!subproc_has_exited(core.netd))
        uv_run(&loop, UV_RUN_DEFAULT);
    core__limits_close(&core);
    core__limits_fini(&core);
    subproc_close(first, NULL, NULL);
    subproc_close(core.netd, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

// ---- a process that is in some of the groups

static bool lists(const char *dir, pid_t pid)
{
    struct buf text auto_buf = BUF_INIT;
    char *path auto_free = str_printf("%s/cgroup.procs", dir);
    char *line auto_free = str_printf("\n%d\n", (int)pid);
    buf_add(&text, "\n", 1);
    return file_read(path, 1 << 20, &text, NULL) == 0 && strstr(buf_str(&text), line);
}

static void put_into(const char *dir, pid_t pid)
{
    char *path auto_free = str_printf("%s/cgroup.procs", dir);
    char *text auto_free = str_printf("%d", (int)pid);
    FILE *file = fopen(path, "we");
    ok(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

// `runsc create` may start the sentry while it is in some of the groups and not in others. The
// groups have the same name in each tree of version 1.
static void test_confine(void)
{
    static const struct core_kind kind = {
        .process = "a test", .first_ends = true, .limited = on_limited};
    const struct cgroup_limits limits = {.memory_bytes = LIMIT_BYTES, .cpus = 1, .processes = 64};
    char id[] = "ijklmnop", dir[] = "/nonexistent/core-limits/ijklmnop";
    struct subproc *late = start("sleep 600 & echo; wait");
    struct machine_core core = {.kind = &kind, .loop = &loop, .id = id, .dir = dir};
    core.netd = start("exec sleep 600");
    limited = false;
    core_limits_start(&core, core.netd, &limits);
    while (!limited)
        uv_run(&loop, UV_RUN_DEFAULT);
    json_t *record = core__limits_record(&core);
    const json_t *groups = json_object_get(record, "groups");
    pid_t pids[2] = {subproc_pid(late)};
    while (subproc_children(pids[0], &pids[1], 1) == 0)
        sched_yield();
    put_into(json_string_value(json_object_get(json_array_get(groups, 0), "dir")), pids[0]);
    core_limits_confine(&core, pids[0]);
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const char *group = json_string_value(json_object_get(json_array_get(groups, i), "dir"));
        ok(lists(group, pids[0]), "%s has the process", group);
        ok(lists(group, pids[1]), "and its child");
    }
    json_decref(record);
    record = core__limits_record(&core);
    is_str(json_string_value(json_object_get(record, "holds")),
           cgroup_names(cgroup_place_controllers(cgroup_place())), "all limits hold");
    json_decref(record);
    kill(pids[1], SIGKILL);
    subproc_kill(late);
    subproc_kill(core.netd);
    while (!subproc_has_exited(core.netd) || !subproc_has_exited(late))
        uv_run(&loop, UV_RUN_DEFAULT);
    core__limits_close(&core);
    core__limits_fini(&core);
    subproc_close(late, NULL, NULL);
    subproc_close(core.netd, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

// ---- the background without groups

// Where the guest's programs run in processes below, those are what takes the processor.
static void test_background(void)
{
    static const struct core_kind kind = {.process = "a test", .child_levels = 1};
    struct machine_core core = {.kind = &kind, .loop = &loop};
    pid_t child = 0;
    core.guest = start("sleep 600 & wait");
    while (subproc_children(subproc_pid(core.guest), &child, 1) == 0)
        sched_yield();
    core_set_background(&core.machine, true);
    is_int(sched_getscheduler(subproc_pid(core.guest)), SCHED_IDLE, "the process");
    is_int(sched_getscheduler(child), SCHED_IDLE, "and its child");
    core_set_background(&core.machine, false);
    is_int(sched_getscheduler(child), SCHED_OTHER, "both come back");
    kill(child, SIGKILL);
    subproc_kill(core.guest);
    while (!subproc_has_exited(core.guest))
        uv_run(&loop, UV_RUN_DEFAULT);
    subproc_close(core.guest, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

// ---- processor time, in directories that look like groups

static int64_t cpu_ns(int version, const char *file, const char *text)
{
    char *path auto_free = str_printf("%s/%s", home, file);
    struct cgroup g = {
        .groups = {.trees = {{.dir = home, .version = version, .controllers = CGROUP_CPU}},
                   .count = 1}};
    ok(file_replace(path, text, strlen(text), 0600, NULL) == 0, "%s", path);
    int64_t ns = cgroup_cpu_ns(&g);
    unlink(path);
    return ns;
}

static void test_cpu(void)
{
    is_int(cpu_ns(2, "cpu.stat", "usage_usec 12\nuser_usec 7\n"), 12000, "version 2");
    is_int(cpu_ns(1, "cpuacct.usage", "12345\n"), 12345, "version 1");
    is_int(cpu_ns(1, "cpu.stat", "nr_periods 0\n"), -1, "version 1 that does not count");
}

int main(void)
{
    ok(mkdtemp(home), "a home");
    uv_loop_init(&loop);
    test_swap();
    test_memory();
    test_cpu();
    test_background();
    if (cgroup_place_controllers(cgroup_place()) & CGROUP_CPU)
        test_first_has_ended();
    if (cgroup_place_controllers(cgroup_place()))
        test_confine();
    uv_loop_close(&loop);
    dir_remove(home, NULL);
    return tap_done();
}
