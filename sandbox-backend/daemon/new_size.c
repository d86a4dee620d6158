// SPDX-License-Identifier: Apache-2.0
// The size that a create request asks for.
#include "sandbox-backend/daemon/new_size.h"

#include <unistd.h>

#include "sandbox-backend/base/group_memory.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/daemon/store.h"

#define MEMORY_MB_MIN 256 // less, and the kernel and envd are about all that fits
#define DISK_BYTES    (64LL << 30)
#define MEMORY_SHARE  2 // of the host's memory: the default for one is one part in so many

void new_size_defaults(struct store_limits *limits)
{
    limits->one_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    limits->one_memory_bytes = group_memory_total() / MEMORY_SHARE;
    limits->one_disk_bytes = DISK_BYTES;
}

struct range {
    const char *key;
    int64_t has; // the template
    int64_t min, max;
    const char *option; // of the daemon, that raises the maximum
};

// *out is 0 for what the template has. Its own size is always possible, whatever the limits are.
static int parse_one(const json_t *body, const struct range *r, const struct known_template *t,
                     const char *wanted, int64_t *out, struct err *e)
{
    int64_t asked;
    *out = 0;
    if (json_get_int(body, r->key, 0, INT64_MAX, &asked, r->has, e) < 0)
        return -1;
    if (asked == r->has)
        return 0;
    if (t->image)
        return err_set(e, ERR_INVALID,
                       "%s: a sandbox has the size of the one that was saved, and that is %lld; "
                       "leave it out",
                       r->key, (long long)r->has);
    if (asked < r->min || asked > r->max)
        return err_set(e, ERR_INVALID,
                       "%s: %lld is out of range: from %lld to %lld are possible, and \"%.80s\" "
                       "has %lld; %s of cubbyd sets the maximum",
                       r->key, (long long)asked, (long long)r->min, (long long)r->max, wanted,
                       (long long)r->has, r->option);
    *out = asked;
    return 0;
}

// As facts, what was asked for is what everything else goes by.
static void take(struct known_template *t, int64_t cpus, int64_t memory_mb, int64_t disk_mb)
{
    t->size = (struct machine_size){.cpus = (int)cpus, .memory_mb = memory_mb, .disk_mb = disk_mb};
    t->facts.cpus = cpus ? (int)cpus : t->facts.cpus;
    t->facts.memory_mb = memory_mb ? memory_mb : t->facts.memory_mb;
    t->facts.disk_mb = disk_mb ? disk_mb : t->facts.disk_mb;
}

int new_size_parse(const struct store *store, const json_t *body, const char *wanted,
                   struct known_template *t, struct err *e)
{
    const struct store_limits *l = &store->limits;
    const struct range cpus = {"cpuCount", t->facts.cpus, 1, l->one_cpus, "--max-sandbox-cpus"};
    const struct range memory = {"memoryMB", t->facts.memory_mb, MEMORY_MB_MIN,
                                 l->one_memory_bytes >> 20, "--max-sandbox-memory"};
    const struct range disk = {"diskSizeMB", t->facts.disk_mb, t->facts.disk_mb,
                               l->one_disk_bytes >> 20, "--max-sandbox-disk"};
    int64_t asked_cpus, asked_memory, asked_disk;
    if (parse_one(body, &cpus, t, wanted, &asked_cpus, e) < 0 ||
        parse_one(body, &memory, t, wanted, &asked_memory, e) < 0 ||
        parse_one(body, &disk, t, wanted, &asked_disk, e) < 0)
        return -1;
    if (asked_disk && !t->facts.disk_grows)
        return err_set(e, ERR_INVALID,
                       "diskSizeMB: the guests of template \"%.80s\" cannot grow their disk; build "
                       "it again with: cubby template build %.80s",
                       wanted, t->name);
    if (!t->image)
        take(t, asked_cpus, asked_memory, asked_disk);
    return 0;
}
