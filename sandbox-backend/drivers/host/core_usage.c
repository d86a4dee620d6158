// SPDX-License-Identifier: Apache-2.0
// A machine's usage of the host, from counters that the kernel keeps anyway.
//
// Memory is anonymous pages, resident or swapped out, and page tables. A page of a file, such as a
// template's memory, becomes anonymous when the guest writes it. A page that the guest only read
// belongs to the page cache, which all sandboxes share, so it is not counted. Where the guest's
// memory is a memory file of its own, its pages count too: all of the file, because the guest's
// process itself has not touched each page. Where the guest's processes are ordinary ones of the
// host, their control group counts their anonymous pages. Reading these counters is cheap; smaps
// would walk the page tables of all of the guest's memory.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/host/core.h"

#define STATUS_BYTES_MAX 8192
#define NS_PER_S         1000000000LL
#define CHILDREN_MAX     256
#define PROCESSES_MAX    512 // looked at where no control group counts; a few milliseconds

// Return the sum of the memory members of /proc/PID/status in bytes; the file has kB (proc(5)).
static int64_t own_memory(const char *status, bool with_shared)
{
    static const char *const MEMBERS[] = {"\nRssAnon:", "\nVmSwap:", "\nVmPTE:", "\nRssShmem:"};
    int64_t kilobytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS) - !with_shared; i++) {
        const char *at = strstr(status, MEMBERS[i]);
        kilobytes += at ? strtoll(at + strlen(MEMBERS[i]), NULL, 10) : 0;
    }
    return kilobytes * 1024;
}

static void add_time(pid_t pid, struct machine_usage *out)
{
    clockid_t clock;
    struct timespec ran;
    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &ran) == 0)
        out->cpu_ns += ran.tv_sec * NS_PER_S + ran.tv_nsec;
}

// Add the processor time of the processes below this one, `left` of them at most. The time of
// processes that have ended is lost; they belong to commands that have ended.
static void add_children(pid_t pid, int depth, int *left, struct machine_usage *out)
{
    pid_t children[CHILDREN_MAX];
    int most = *left < CHILDREN_MAX ? *left : CHILDREN_MAX;
    int count = depth ? subproc_children(pid, children, most) : 0;
    *left -= count;
    for (int i = 0; i < count; i++) {
        add_time(children[i], out);
        add_children(children[i], depth - 1, left, out);
    }
}

// Add the usage of a process, unless it has ended: its pid may then belong to another process.
static void add_process(const struct subproc *p, bool with_shared, struct machine_usage *out)
{
    char path[48];
    struct buf text auto_buf = BUF_INIT;
    if (!p || subproc_has_exited(p))
        return;
    snprintf(path, sizeof path, "/proc/%d/status", (int)subproc_pid(p));
    if (file_read(path, STATUS_BYTES_MAX, &text, NULL) == 0)
        out->memory_bytes += own_memory(buf_str(&text), with_shared);
    add_time(subproc_pid(p), out);
}

int core_usage(const struct machine *machine, struct machine_usage *out, struct err *e)
{
    const struct machine_core *c = core_of_const(machine);
    struct net_stats network;
    *out = (struct machine_usage){0};
    if (!c->guest || subproc_has_exited(c->guest))
        return err_set(e, ERR_GONE, "the machine has ended");
    int64_t of_group = c->kind->memory_of_group ? core__limits_memory_bytes(c) : -1;
    int64_t shared = of_group < 0 && c->kind->memory_bytes ? c->kind->memory_bytes(c) : -1;
    add_process(c->guest, c->kind->memory_is_shared && shared < 0, out);
    out->memory_bytes += shared > 0 ? shared : 0;
    int64_t counted = core__limits_cpu_ns(c);
    int left = counted < 0 ? PROCESSES_MAX : 0;
    if (left)
        add_children(subproc_pid(c->guest), c->kind->child_levels, &left, out);
    add_process(c->netd, false, out);
    add_process(c->egress, false, out);
    if (counted >= 0)
        out->cpu_ns = counted;
    if (of_group >= 0)
        out->memory_bytes = of_group;
    if (core_network(machine, MACHINE_NET_POLICY, &network, NULL) == 0) {
        out->net_in_bytes = (int64_t)network.received_bytes;
        out->net_out_bytes = (int64_t)network.sent_bytes;
    }
    return 0;
}
