// SPDX-License-Identifier: Apache-2.0
// cubby selftest: the jails around a sandbox's processes. The daemon says which walls each jail
// has. This step looks at the processes from outside, by /proc, and checks each wall that can be
// seen there.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/home.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/selftest/selftest.h"

#define RECORD_BYTES_MAX (1 << 20)
#define STATUS_BYTES_MAX 16384
#define LINK_BYTES       64

// A wall that is a namespace.
static const struct {
    const char *wall, *link;
} NAMESPACES[] = {
    {"user", "user"}, {"mount", "mnt"}, {"pid", "pid"},       {"network", "net"},
    {"ipc", "ipc"},   {"uts", "uts"},   {"cgroup", "cgroup"},
};

// A wall that a line of /proc/PID/status shows.
static const struct {
    const char *wall, *line;
} LINES[] = {
    {"seccomp", "\nSeccomp:\t2\n"},
    {"privileges", "\nNoNewPrivs:\t1\n"},
    {"privileges", "\nCapEff:\t0000000000000000\n"},
};

static bool is_own_namespace(int pid, const char *link)
{
    char path[LINK_BYTES], ours[LINK_BYTES], theirs[LINK_BYTES];
    snprintf(path, sizeof path, "/proc/self/ns/%s", link);
    ssize_t a = readlink(path, ours, sizeof ours);
    snprintf(path, sizeof path, "/proc/%d/ns/%s", pid, link);
    ssize_t b = readlink(path, theirs, sizeof theirs);
    return a <= 0 || b <= 0 || a != b || memcmp(ours, theirs, (size_t)a) != 0;
}

static bool names_wall(const json_t *walls, const char *wall)
{
    size_t i = 0;
    const json_t *one = NULL;
    json_array_foreach (walls, i, one) {
        if (str_eq(json_string_value(one), wall))
            return true;
    }
    return false;
}

static int lacks(const char *process, const char *wall, struct err *e)
{
    return err_set(e, ERR_INTERNAL, "%s lacks the wall \"%s\" that the daemon reports", process,
                   wall);
}

// Check one process against the walls of its jail. *seen counts the walls that could be checked.
static int check_process(const char *name, int pid, const json_t *walls, int *seen, struct err *e)
{
    char *path auto_free = str_printf("/proc/%d/status", pid);
    struct buf status auto_buf = BUF_INIT;
    if (file_read(path, STATUS_BYTES_MAX, &status, e) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(NAMESPACES); i++) {
        // netd and egress open connections, so their jails have no network namespace.
        bool is_for_qemu = str_eq(NAMESPACES[i].wall, "network") && !str_eq(name, "qemu");
        if (is_for_qemu || !names_wall(walls, NAMESPACES[i].wall))
            continue;
        ++*seen;
        if (!is_own_namespace(pid, NAMESPACES[i].link))
            return lacks(name, NAMESPACES[i].wall, e);
    }
    for (size_t i = 0; i < ARRAY_LEN(LINES); i++) {
        if (!names_wall(walls, LINES[i].wall))
            continue;
        ++*seen;
        if (!strstr(buf_str(&status), LINES[i].line))
            return lacks(name, LINES[i].wall, e);
    }
    return 0;
}

// The daemon's record of a sandbox names its processes, each as {"pid": ..}.
static json_t *read_record(const struct selftest *t, struct err *e)
{
    char *path auto_free = str_printf("%s/sandboxes/%s/sandbox.json", t->home, t->id);
    struct buf text auto_buf = BUF_INIT;
    if (file_read(path, RECORD_BYTES_MAX, &text, e) < 0)
        return NULL;
    return json_parse(buf_str(&text), text.len, e);
}

// Return the walls of a process of that name; NULL when it has no jail of Cubby's.
static const json_t *walls_of(const json_t *jail, const char *process)
{
    const json_t *network = json_object_get(jail, "network");
    if (str_eq(process, "qemu"))
        return json_object_get(jail, "walls");
    if (str_eq(process, "netd") || str_eq(process, "egress"))
        return json_object_get(network ? network : jail, "walls");
    return NULL;
}

static int check_processes(json_t *machine, const json_t *jail, struct buf *said, struct err *e)
{
    int seen = 0, processes = 0;
    const char *name = NULL;
    json_t *one = NULL;
    json_object_foreach (machine, name, one) {
        int pid = (int)json_integer_value(json_object_get(one, "pid"));
        const json_t *walls = pid > 0 ? walls_of(jail, name) : NULL;
        if (!walls)
            continue;
        processes++;
        if (check_process(name, pid, walls, &seen, e) < 0)
            return -1;
    }
    if (!processes)
        return err_set(e, ERR_INTERNAL, "no process of the sandbox was found in its record");
    buf_printf(said, "%d checks of %d processes from outside", seen, processes);
    return 0;
}

static void add_missing(const json_t *jail, struct buf *said)
{
    size_t i = 0;
    const json_t *one = NULL;
    const json_t *missing = json_object_get(jail, "missing");
    json_array_foreach (missing, i, one) {
        buf_printf(said, "%s%s", i ? ", " : "; this host cannot build: ", json_string_value(one));
    }
}

int step_walls(struct selftest *t, struct buf *said, struct err *e)
{
    json_t *detail = connection_get(&t->c, t->id, e);
    const json_t *jail = json_object_get(detail, "jail");
    json_t *record = detail ? read_record(t, e) : NULL;
    int rc = record ? 0 : -1;
    if (record && !jail) {
        buf_adds(said, "this tier has no jail");
        rc = STEP_SKIPPED;
    } else if (record) {
        rc = check_processes(json_object_get(record, "machine"), jail, said, e);
        add_missing(jail, said);
    }
    json_decref(detail);
    json_decref(record);
    return rc;
}
