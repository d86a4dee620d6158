// SPDX-License-Identifier: Apache-2.0
// GET /metrics. The processors' use is that since the last call (the first: since boot).
#include "sandbox-backend/envd/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/str.h"

#define PROC_MAX_BYTES (256 * 1024)
#define MIB            (1024 * 1024)

// Jiffies of all processors: in use, and in all. From the first line of /proc/stat (proc(5)).
static void read_cpu(double *busy, double *total)
{
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    unsigned long long v[8] = {0};
    *busy = *total = 0;
    if (file_read("/proc/stat", PROC_MAX_BYTES, &text, &e) < 0 ||
        sscanf(buf_str(&text), "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
               &v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
        return;
    for (int i = 0; i < 8; i++)
        *total += (double)v[i];
    *busy = *total - (double)v[3] - (double)v[4]; // less idle and iowait
}

static double cpu_used_pct(void)
{
    static double last_busy;
    static double last_total;
    double busy;
    double total;
    read_cpu(&busy, &total);
    double span = total - last_total;
    double used = span > 0 ? (busy - last_busy) / span * 100 : 0;
    last_busy = busy;
    last_total = total;
    return used < 0 ? 0 : used > 100 ? 100 : used;
}

static uint64_t meminfo(const char *text, const char *field)
{
    const char *at = strstr(text, field);
    unsigned long long kb = 0;
    if (at)
        sscanf(at + strlen(field), " %llu", &kb);
    return kb * 1024;
}

void metrics_get(struct http_request *req)
{
    struct buf memory auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (file_read("/proc/meminfo", PROC_MAX_BYTES, &memory, &e) < 0) {
        http_respond_error(req, 500, "%s", e.msg);
        return;
    }
    uint64_t total = meminfo(buf_str(&memory), "MemTotal:");
    uint64_t used = total - meminfo(buf_str(&memory), "MemAvailable:");
    uint64_t cache = meminfo(buf_str(&memory), "\nCached:");
    struct statvfs disk = {0};
    statvfs("/", &disk);
    uint64_t block = disk.f_frsize;
    char answer[640];
    int n =
        snprintf(answer, sizeof answer,
                 "{\"ts\":%lld,\"cpu_count\":%ld,\"cpu_used_pct\":%.2f,"
                 "\"mem_total_mib\":%" PRIu64 ",\"mem_used_mib\":%" PRIu64 ",\"mem_total\":%" PRIu64
                 ",\"mem_used\":%" PRIu64 ",\"mem_cache\":%" PRIu64 ",\"disk_used\":%" PRIu64
                 ",\"disk_total\":%" PRIu64 "}",
                 (long long)time(NULL), sysconf(_SC_NPROCESSORS_ONLN), cpu_used_pct(), total / MIB,
                 used / MIB, total, used, cache, (uint64_t)(disk.f_blocks - disk.f_bfree) * block,
                 (uint64_t)disk.f_blocks * block);
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 200, "application/json", answer, (size_t)n);
}
