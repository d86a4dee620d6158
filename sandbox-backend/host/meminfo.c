// SPDX-License-Identifier: Apache-2.0
// The memory of this host, and how much of it this program can use.
#include "sandbox-backend/host/meminfo.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/host/cgroup_place.h"

#define FILE_BYTES_MAX 65536
#define KB_MAX         (INT64_MAX >> 10)

static const char *file = "/proc/meminfo";

void meminfo_use(const char *path)
{
    file = path ? path : "/proc/meminfo";
}

// Find a line "<name>:   <number> kB".
static int member(const char *text, const char *name, int64_t *bytes, struct err *e)
{
    size_t len = strlen(name);
    long long kb = -1;
    int end = 0;
    const char *line = text;
    while (line && (strncmp(line, name, len) != 0 || line[len] != ':')) {
        line = strchr(line, '\n');
        line += line != NULL;
    }
    if (!line || sscanf(line + len + 1, " %lld kB%n", &kb, &end) != 1 || !end || kb < 0 ||
        kb > KB_MAX)
        return err_set(e, ERR_INVALID, "%s has no line %s in kB", file, name);
    *bytes = (int64_t)kb << 10;
    return 0;
}

int meminfo_parse(const char *text, struct meminfo *out, struct err *e)
{
    *out = (struct meminfo){0};
    if (member(text, "MemTotal", &out->total, e) == 0 &&
        member(text, "MemAvailable", &out->available, e) == 0)
        return 0;
    *out = (struct meminfo){0};
    return -1;
}

static void keep_to_groups(struct meminfo *m)
{
    struct group_memory group;
    group_memory_read(&group);
    m->by_group = group.available < m->available;
    m->available = m->by_group ? group.available : m->available;
    m->total = group.limit < m->total ? group.limit : m->total;
}

int meminfo_read(struct meminfo *out, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    *out = (struct meminfo){0};
    if (file_read(file, FILE_BYTES_MAX, &text, e) < 0 || meminfo_parse(buf_str(&text), out, e) < 0)
        return -1;
    keep_to_groups(out);
    return 0;
}

// ---- the control groups around this program

#define LEVELS_MAX 64
#define LIMIT_MAX  (INT64_MAX / 2) // in version 1 a larger number means no limit

// A group's usage includes file pages. Most of them are dropped before anything is killed, so they
// count as available here, as in MemAvailable; pages of tmpfs do not. The fields of version 1 with
// `total_` include the groups below, as its usage does.
static const struct files {
    const char *limits[2], *used;
    const char *dropped[3]; // of memory.stat
} FILES[] = {
    [1] = {{"memory.limit_in_bytes"},
           "memory.usage_in_bytes",
           {"total_active_file", "total_inactive_file"}},
    [2] = {{"memory.max", "memory.high"},
           "memory.current",
           {"active_file", "inactive_file", "slab_reclaimable"}},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *proc = "/proc/self";
static struct cgroup_place own; // where this program was at the first look
static bool known;

void group_memory_use(const char *dir)
{
    cgroup_place_fini(&own);
    known = false;
    proc = dir ? dir : "/proc/self";
}

// Read once: if this program is moved to another group, the processes that it started stay behind.
static const struct cgroup_place *place(void)
{
    pthread_mutex_lock(&lock);
    if (!known)
        cgroup_place_read(&own, proc);
    known = true;
    pthread_mutex_unlock(&lock);
    return &own;
}

// Return the number in a file; -1 if the file is missing or holds no number ("max").
static int64_t number_in(const char *dir, const char *name)
{
    char *path auto_free = str_printf("%s/%s", dir, name);
    struct buf text auto_buf = BUF_INIT;
    int64_t n = -1;
    if (file_read(path, FILE_BYTES_MAX, &text, NULL) < 0)
        return -1;
    char *line auto_free = xstrdup(buf_str(&text));
    line[strcspn(line, "\n")] = '\0';
    return str_to_int(line, 0, LIMIT_MAX, &n) ? n : -1;
}

// Return the number of `key` in a text of lines "key number", or 0.
static int64_t stat_member(const char *text, const char *key)
{
    char *copy auto_free = xstrdup(text);
    int64_t n = 0;
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        char *value = line;
        if (str_eq(strsep(&value, " "), key) && value && str_to_int(value, 0, INT64_MAX, &n))
            return n;
    }
    return 0;
}

static int64_t dropped_in(const char *dir, const struct files *files)
{
    char *path auto_free = str_printf("%s/memory.stat", dir);
    struct buf text auto_buf = BUF_INIT;
    int64_t sum = 0;
    if (file_read(path, FILE_BYTES_MAX, &text, NULL) < 0)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(files->dropped) && files->dropped[i]; i++)
        sum += stat_member(buf_str(&text), files->dropped[i]);
    return sum;
}

static int64_t limit_in(const char *dir, const struct files *files)
{
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < ARRAY_LEN(files->limits) && files->limits[i]; i++) {
        int64_t limit = number_in(dir, files->limits[i]);
        if (limit >= 0 && limit < least)
            least = limit;
    }
    return least;
}

static void look(const char *dir, const struct files *files, struct group_memory *out)
{
    int64_t limit = limit_in(dir, files);
    int64_t used = limit == INT64_MAX ? -1 : number_in(dir, files->used);
    if (used < 0)
        return;
    int64_t dropped = dropped_in(dir, files);
    int64_t kept = used > dropped ? used - dropped : 0;
    int64_t left = limit > kept ? limit - kept : 0;
    out->limit = limit < out->limit ? limit : out->limit;
    out->available = left < out->available ? left : out->available;
}

static bool is_group(const char *dir)
{
    char *path auto_free = str_printf("%s/cgroup.procs", dir);
    return file_exists(path);
}

static void climb(const struct cgroup_tree *tree, struct group_memory *out)
{
    char *dir auto_free = xstrdup(tree->dir);
    for (int level = 0; level < LEVELS_MAX && is_group(dir); level++) {
        look(dir, &FILES[tree->version], out);
        char *slash = strrchr(dir, '/');
        if (!slash || slash == dir)
            return;
        *slash = '\0';
    }
}

void group_memory_read(struct group_memory *out)
{
    const struct cgroup_place *p = place();
    *out = (struct group_memory){INT64_MAX, INT64_MAX};
    for (int i = 0; i < p->count; i++)
        if (p->trees[i].version == 2 || (p->trees[i].controllers & CGROUP_MEMORY))
            climb(&p->trees[i], out);
}

int64_t group_memory_total(void)
{
    int64_t all = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    struct group_memory group;
    group_memory_read(&group);
    return group.limit < all ? group.limit : all;
}
