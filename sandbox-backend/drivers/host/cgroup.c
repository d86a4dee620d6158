// SPDX-License-Identifier: Apache-2.0
// The control groups of one machine.
#include "sandbox-backend/drivers/host/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define PREFIX          "cubby-"
#define ID_CHARS        8 // few, because every user of the host can read the names of cgroups
#define PERIOD_US       100000
#define SHARES          1024 // cpu.shares of an ordinary process, version 1
#define WEIGHT          100  // cpu.weight of an ordinary process, version 2
#define WEIGHT_MAX      10000
#define FNV_BASIS       0xcbf29ce484222325ULL
#define FNV_PRIME       0x100000001b3ULL
#define STAT_BYTES_MAX  16384
#define PROCS_BYTES_MAX (1 << 20)
#define KILL_PASSES     16
#define VERSION_2_FILE  "cgroup.controllers"
#define BOTH_FILE       "memory.memsw.limit_in_bytes" // memory and swap together, version 1

static char *prefix_of(const char *sandboxes_dir)
{
    uint64_t hash = FNV_BASIS;
    for (const char *c = sandboxes_dir; *c; c++)
        hash = (hash ^ (unsigned char)*c) * FNV_PRIME;
    return str_printf(PREFIX "%016llx-", (unsigned long long)hash);
}

char *cgroup_name(const char *sandboxes_dir, const char *id)
{
    char *prefix auto_free = prefix_of(sandboxes_dir);
    return str_printf("%s%.*s", prefix, ID_CHARS, id);
}

static bool set(const char *dir, const char *file, int64_t value)
{
    char path[4096];
    char text[24];
    int len = snprintf(text, sizeof text, "%lld", (long long)value);
    snprintf(path, sizeof path, "%s/%s", dir, file);
    int fd auto_close = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, (size_t)len) == len;
}

static bool set_weight(const struct cgroup_tree *t, int cpus)
{
    if (t->version == 1)
        return set(t->dir, "cpu.shares", (int64_t)SHARES * cpus);
    int weight = cpus < WEIGHT_MAX / WEIGHT ? cpus * WEIGHT : WEIGHT_MAX;
    return set(t->dir, "cpu.weight", weight);
}

// In version 2, a write of the quota alone leaves the period at its default of 100 ms.
static bool set_quota(const struct cgroup_tree *t, int cpus)
{
    int64_t quota = (int64_t)PERIOD_US * cpus;
    if (t->version == 2)
        return set(t->dir, "cpu.max", quota);
    return set(t->dir, "cpu.cfs_period_us", PERIOD_US) && set(t->dir, "cpu.cfs_quota_us", quota);
}

// With `no_swap`, version 1 counts what is swapped out as well, and version 2 swaps nothing out. A
// kernel that does not account for swap has no such file.
static bool set_memory(const struct cgroup_tree *t, const struct cgroup_limits *l)
{
    if (t->version == 2)
        return set(t->dir, "memory.max", l->memory_bytes) &&
               (!l->no_swap || set(t->dir, "memory.swap.max", 0) || errno == ENOENT);
    set(t->dir, BOTH_FILE, -1); // a group that is left over may have less than the new limit
    return set(t->dir, "memory.limit_in_bytes", l->memory_bytes) &&
           (!l->no_swap || set(t->dir, BOTH_FILE, l->memory_bytes) || errno == ENOENT);
}

// Return the controllers of `t` whose limits were accepted.
static unsigned set_limits(const struct cgroup_tree *t, const struct cgroup_limits *l)
{
    unsigned held = 0;
    if (t->controllers & CGROUP_MEMORY && set_memory(t, l))
        held |= CGROUP_MEMORY;
    if (t->controllers & CGROUP_CPU && set_weight(t, l->cpus) &&
        set_quota(t, l->cpus + l->cpu_spare))
        held |= CGROUP_CPU;
    if (t->controllers & CGROUP_PIDS && set(t->dir, "pids.max", l->processes))
        held |= CGROUP_PIDS;
    return held;
}

bool cgroup_is_used(const struct cgroup_place *place, const char *name)
{
    char pid;
    for (int i = 0; i < place->count; i++) {
        char *path auto_free = str_printf("%s/%s/cgroup.procs", place->trees[i].dir, name);
        int fd auto_close = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, &pid, 1) == 1)
            return true;
    }
    return false;
}

void cgroup_make(struct cgroup *g, const struct cgroup_place *place, const char *name,
                 const struct cgroup_limits *limits)
{
    *g = (struct cgroup){0};
    for (int i = 0; i < place->count; i++) {
        struct cgroup_tree tree = place->trees[i];
        char *dir auto_free = str_printf("%s/%s", tree.dir, name);
        FAULT("cgroup.1");
        if (mkdir(dir, 0755) < 0 && errno != EEXIST)
            continue;
        tree.dir = dir;
        tree.controllers = set_limits(&tree, limits);
        if (tree.controllers) {
            tree.dir = steal(&dir);
            g->groups.trees[g->groups.count++] = tree;
        } else {
            rmdir(dir);
        }
    }
}

unsigned cgroup_join(const struct cgroup *g, pid_t pid)
{
    unsigned held = 0;
    for (int i = 0; i < g->groups.count; i++) {
        const struct cgroup_tree *t = &g->groups.trees[i];
        FAULT("cgroup.2");
        if (set(t->dir, "cgroup.procs", pid))
            held |= t->controllers;
    }
    return held;
}

// The file of the group itself is read, and not /proc/PID/cgroup: there, the groups of one machine
// look alike, because they have the same name in each tree.
static bool is_member(const char *dir, pid_t pid)
{
    char *path auto_free = str_printf("%s/cgroup.procs", dir);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, PROCS_BYTES_MAX, &text, NULL) < 0)
        return false;
    for (const char *at = buf_str(&text); *at; at += strcspn(at, "\n"), at += *at == '\n')
        if (strtol(at, NULL, 10) == pid)
            return true;
    return false;
}

unsigned cgroup_holds(const struct cgroup *g, pid_t pid)
{
    unsigned held = 0;
    for (int i = 0; i < g->groups.count; i++)
        if (is_member(g->groups.trees[i].dir, pid))
            held |= g->groups.trees[i].controllers;
    return held;
}

// cpu.idle exists since Linux 5.15, in both versions. On older kernels the least weight has nearly
// the same effect. Clearing cpu.idle leaves the default weight.
bool cgroup_set_idle(const struct cgroup *g, bool idle, int cpus)
{
    for (int i = 0; i < g->groups.count; i++) {
        const struct cgroup_tree *t = &g->groups.trees[i];
        if (!(t->controllers & CGROUP_CPU))
            continue;
        if (set(t->dir, "cpu.idle", idle) && idle)
            return true;
        return idle ? set(t->dir, t->version == 1 ? "cpu.shares" : "cpu.weight",
                          t->version == 1 ? 2 : 1)
                    : set_weight(t, cpus);
    }
    return false;
}

// Return the number behind `name` in a file of a group, or -1. An empty name: the file is a number.
static int64_t number_in(const char *dir, const char *file, const char *name)
{
    char *path auto_free = str_printf("%s/%s", dir, file);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, STAT_BYTES_MAX, &text, NULL) < 0)
        return -1;
    const char *at = strstr(buf_str(&text), name);
    return at && text.len ? strtoll(at + strlen(name), NULL, 10) : -1;
}

// In version 1 another controller counts, which is mounted with that of the processor on most
// hosts.
int64_t cgroup_cpu_ns(const struct cgroup *g)
{
    for (int i = 0; i < g->groups.count; i++) {
        const struct cgroup_tree *t = &g->groups.trees[i];
        if (!(t->controllers & CGROUP_CPU))
            continue;
        if (t->version == 1)
            return number_in(t->dir, "cpuacct.usage", "");
        int64_t us = number_in(t->dir, "cpu.stat", "usage_usec ");
        return us < 0 ? -1 : us * 1000;
    }
    return -1;
}

// memory.stat of version 2 begins with "anon ", and counts the groups below as well.
int64_t cgroup_memory_bytes(const struct cgroup *g)
{
    for (int i = 0; i < g->groups.count; i++) {
        const struct cgroup_tree *t = &g->groups.trees[i];
        bool is_old = t->version == 1;
        if (!(t->controllers & CGROUP_MEMORY))
            continue;
        int64_t anon = number_in(t->dir, "memory.stat", is_old ? "total_rss " : "anon ");
        int64_t swapped = is_old ? number_in(t->dir, "memory.stat", "total_swap ")
                                 : number_in(t->dir, "memory.swap.current", "");
        return anon < 0 ? -1 : anon + (swapped > 0 ? swapped : 0);
    }
    return -1;
}

// Kill the processes of one group. Return whether it had any.
static bool kill_members(const char *dir)
{
    char *path auto_free = str_printf("%s/cgroup.procs", dir);
    struct buf text auto_buf = BUF_INIT;
    bool any = false;
    if (file_read(path, PROCS_BYTES_MAX, &text, NULL) < 0)
        return false;
    char *rest = text.data;
    for (long pid; rest && (pid = strtol(rest, &rest, 10)) > 0; any = true)
        kill((pid_t)pid, SIGKILL);
    return any;
}

// A process that starts while the list is read is found by a further pass.
void cgroup_kill(const struct cgroup *g)
{
    for (int i = 0; i < g->groups.count; i++)
        for (int pass = 0; pass < KILL_PASSES && kill_members(g->groups.trees[i].dir); pass++)
            ;
}

void cgroup_remove(struct cgroup *g)
{
    for (int i = 0; i < g->groups.count; i++) {
        FAULT("cgroup.3");
        rmdir(g->groups.trees[i].dir);
    }
    cgroup_place_fini(&g->groups);
}

// ---- the record

json_t *cgroup_to_json(const struct cgroup *g)
{
    json_t *list = json_array();
    for (int i = 0; i < g->groups.count; i++) {
        const struct cgroup_tree *t = &g->groups.trees[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:s}", "dir", t->dir, "controllers",
                                              (int)t->controllers, "holds",
                                              cgroup_names(t->controllers)));
    }
    return list;
}

static bool is_version_2(const char *dir)
{
    char *path auto_free = str_printf("%s/" VERSION_2_FILE, dir);
    return access(path, F_OK) == 0;
}

void cgroup_from_json(struct cgroup *g, const json_t *json, const char *name)
{
    size_t i;
    json_t *entry;
    *g = (struct cgroup){0};
    json_array_foreach (json, i, entry) {
        const char *dir = json_string_value(json_object_get(entry, "dir"));
        if (!dir || !str_starts(str_base(dir), name) || g->groups.count == CGROUP_TREES_MAX)
            continue;
        unsigned held = (unsigned)json_integer_value(json_object_get(entry, "controllers"));
        g->groups.trees[g->groups.count++] =
            (struct cgroup_tree){.dir = xstrdup(dir),
                                 .version = is_version_2(dir) ? 2 : 1,
                                 .controllers = held & CGROUP_ALL};
    }
}

// ---- left-overs

static void sweep_tree(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *entry; (entry = readdir(d));)
        if (str_starts(entry->d_name, prefix))
            unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR); // fails for a group in use
    closedir(d);
}

void cgroup_sweep(const struct cgroup_place *place, const char *sandboxes_dir)
{
    char *prefix auto_free = prefix_of(sandboxes_dir);
    for (int i = 0; i < place->count; i++)
        sweep_tree(place->trees[i].dir, prefix);
}
