// SPDX-License-Identifier: Apache-2.0
// The control groups of one machine.
#include "sandbox-backend/drivers/microvm/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fault.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define PREFIX         "cubby-"
#define ID_CHARS       8 // every user of the host sees them
#define PERIOD_US      100000
#define SHARES         1024 // of a process of its own, version 1
#define WEIGHT         100  // the same, version 2
#define WEIGHT_MAX     10000
#define FNV_BASIS      0xcbf29ce484222325ULL
#define FNV_PRIME      0x100000001b3ULL
#define VERSION_2_FILE "cgroup.controllers"

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

// In version 2 a quota alone keeps the period, which is of 100 ms.
static bool set_quota(const struct cgroup_tree *t, int cpus)
{
    int64_t quota = (int64_t)PERIOD_US * cpus;
    if (t->version == 2)
        return set(t->dir, "cpu.max", quota);
    return set(t->dir, "cpu.cfs_period_us", PERIOD_US) && set(t->dir, "cpu.cfs_quota_us", quota);
}

// The controllers of `t` whose limits hold.
static unsigned set_limits(const struct cgroup_tree *t, const struct cgroup_limits *l)
{
    unsigned held = 0;
    const char *memory = t->version == 1 ? "memory.limit_in_bytes" : "memory.max";
    if (t->controllers & CGROUP_MEMORY && set(t->dir, memory, l->memory_bytes))
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

// cpu.idle is Linux 5.15's, in both versions; before it the least weight is nearly the same. Taken
// back, it leaves the default weight.
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
    json_array_foreach(json, i, entry)
    {
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
            unlinkat(dirfd(d), entry->d_name, AT_REMOVEDIR); // fails while somebody is in it
    closedir(d);
}

void cgroup_sweep(const struct cgroup_place *place, const char *sandboxes_dir)
{
    char *prefix auto_free = prefix_of(sandboxes_dir);
    for (int i = 0; i < place->count; i++)
        sweep_tree(place->trees[i].dir, prefix);
}
