// SPDX-License-Identifier: Apache-2.0
// What a machine uses of the host, read from what the kernel counts anyway.
//
// Memory: anonymous pages, in memory or swapped out, and page tables. A page of the template that
// the guest wrote is anonymous from then on; one that it only read is the page cache's, all
// sandboxes share it, and it is not counted. The counters cost nothing to read, which smaps does:
// it walks the tables of all of the guest's memory.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/drivers/microvm/machine.h"

#define STATUS_BYTES_MAX 8192
#define STAT_BLOCK_BYTES 512 // of st_blocks, stat(2)
#define NS_PER_S         1000000000LL

// The sum of the named members of /proc/PID/status, which are in kB (proc(5)).
static int64_t own_memory(const char *status)
{
    static const char *const MEMBERS[] = {"\nRssAnon:", "\nVmSwap:", "\nVmPTE:"};
    int64_t kilobytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        const char *at = strstr(status, MEMBERS[i]);
        kilobytes += at ? strtoll(at + strlen(MEMBERS[i]), NULL, 10) : 0;
    }
    return kilobytes * 1024;
}

// Of a process that is still there: its number is then nobody else's.
static void add_process(const struct subproc *p, struct machine_usage *out)
{
    char path[48];
    struct buf text auto_buf = BUF_INIT;
    clockid_t clock;
    struct timespec ran;
    if (!p || subproc_has_exited(p))
        return;
    snprintf(path, sizeof path, "/proc/%d/status", (int)subproc_pid(p));
    if (file_read(path, STATUS_BYTES_MAX, &text, NULL) == 0)
        out->memory_bytes += own_memory(buf_str(&text));
    if (clock_getcpuclockid(subproc_pid(p), &clock) == 0 && clock_gettime(clock, &ran) == 0)
        out->cpu_ns += ran.tv_sec * NS_PER_S + ran.tv_nsec;
}

int machine_network(const struct machine *m, enum machine_net which, struct net_stats *out,
                    struct err *e)
{
    const char *file = which == MACHINE_NET_SECRETS ? MACHINE_EGRESS_STATS : MACHINE_NET_STATS;
    char *path auto_free = str_printf("%s/%s", m->dir, file);
    return net_stats_read(path, out, e);
}

int machine_usage(const struct machine *m, struct machine_usage *out, struct err *e)
{
    char *overlay auto_free = str_printf("%s/" MACHINE_OVERLAY, m->dir);
    struct net_stats network;
    struct stat st;
    *out = (struct machine_usage){0};
    if (!m->qemu || subproc_has_exited(m->qemu))
        return err_set(e, ERR_GONE, "the machine has ended");
    add_process(m->qemu, out);
    add_process(m->netd, out);
    add_process(m->egress, out);
    out->disk_failed = m->disk_failed;
    if (machine_network(m, MACHINE_NET_POLICY, &network, NULL) == 0) {
        out->net_in_bytes = (int64_t)network.received_bytes;
        out->net_out_bytes = (int64_t)network.sent_bytes;
    }
    if (stat(overlay, &st) == 0)
        out->disk_bytes = (int64_t)st.st_blocks * STAT_BLOCK_BYTES;
    return 0;
}
