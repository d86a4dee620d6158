// SPDX-License-Identifier: Apache-2.0
// How much memory this machine has, and how much of it is really free for this program.
#include "sandbox-backend/base/meminfo.h"

#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/group_memory.h"

#define FILE_BYTES_MAX 65536
#define KB_MAX         (INT64_MAX >> 10)

static const char *file = "/proc/meminfo";

void meminfo_use(const char *path)
{
    file = path ? path : "/proc/meminfo";
}

// "<name>:   <number> kB" at the beginning of a line.
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
        return err_set(e, ERR_INVALID, "there is no %s in kB", name);
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
    if (file_read(file, FILE_BYTES_MAX, &text, e) < 0)
        return -1;
    if (meminfo_parse(buf_str(&text), out, e) < 0)
        return err_wrap(e, "%s", file);
    keep_to_groups(out);
    return 0;
}
