// SPDX-License-Identifier: Apache-2.0
// GET /metrics.
//
// The answer has the use of the processors since the last answer, if that span is between
// SPAN_MIN_MS and SPAN_MAX_MS. After a longer span, which would not describe the present, the
// answer waits for a new span of SPAN_MIN_MS. After a shorter span, the answer repeats the last
// figure. Without requests envd measures nothing.
#include "sandbox-backend/envd/guest/rest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/net/deadline.h"

#define PROC_MAX_BYTES (256 * 1024)
#define MIB            (1024 * 1024)
#define SPAN_MIN_MS    200   // 20 ticks of /proc/stat
#define SPAN_MAX_MS    10000 // a longer span does not describe the present

struct sample {
    int64_t at_ms; // 0: never
    double busy;   // ticks of all processors, since boot
    double total;
};

struct pending {
    struct http_request *req;
    struct sample began;
    struct deadline deadline;
};

static struct sample last;
static double last_pct;

// ---- processors

// Read the first line of /proc/stat (proc(5)).
static struct sample take_sample(void)
{
    struct buf text auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    struct sample s = {.at_ms = clock_mono_ms()};
    unsigned long long v[8] = {0};
    if (file_read("/proc/stat", PROC_MAX_BYTES, &text, &e) < 0 ||
        sscanf(buf_str(&text), "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2],
               &v[3], &v[4], &v[5], &v[6], &v[7]) != 8)
        return s;
    for (int i = 0; i < 8; i++)
        s.total += (double)v[i];
    s.busy = s.total - (double)v[3] - (double)v[4]; // less idle and iowait
    return s;
}

static double used_pct(const struct sample *from, const struct sample *to)
{
    double span = to->total - from->total;
    double used = span > 0 ? (to->busy - from->busy) / span * 100 : 0;
    return used < 0 ? 0 : used > 100 ? 100 : used;
}

// ---- the answer

static uint64_t meminfo(const char *text, const char *field)
{
    const char *at = strstr(text, field);
    unsigned long long kb = 0;
    if (at)
        sscanf(at + strlen(field), " %llu", &kb);
    return kb * 1024;
}

static void answer(struct http_request *req)
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
    char text[640];
    int n =
        snprintf(text, sizeof text,
                 "{\"ts\":%lld,\"cpu_count\":%ld,\"cpu_used_pct\":%.2f,"
                 "\"mem_total_mib\":%" PRIu64 ",\"mem_used_mib\":%" PRIu64 ",\"mem_total\":%" PRIu64
                 ",\"mem_used\":%" PRIu64 ",\"mem_cache\":%" PRIu64 ",\"disk_used\":%" PRIu64
                 ",\"disk_total\":%" PRIu64 "}",
                 (long long)time(NULL), sysconf(_SC_NPROCESSORS_ONLN), last_pct, total / MIB,
                 used / MIB, total, used, cache, (uint64_t)(disk.f_blocks - disk.f_bfree) * block,
                 (uint64_t)disk.f_blocks * block);
    http_response_header(req, "Cache-Control", "no-store");
    http_respond(req, 200, "application/json", text, (size_t)n);
}

// ---- a new span

static void on_deadline_closed(struct deadline *d)
{
    free(container_of(d, struct pending, deadline));
}

static void on_closed(void *ctx)
{
    struct pending *p = ctx;
    deadline_close(&p->deadline, on_deadline_closed);
}

static void on_span_over(struct deadline *d)
{
    struct pending *p = container_of(d, struct pending, deadline);
    last = take_sample();
    last_pct = used_pct(&p->began, &last);
    http_request_on_close(p->req, NULL, NULL);
    answer(p->req);
    deadline_close(&p->deadline, on_deadline_closed);
}

static void measure(struct http_request *req, const struct sample *now)
{
    struct pending *p = xcalloc(1, sizeof *p);
    p->req = req;
    p->began = *now;
    deadline_init(&p->deadline, http_request_loop(req), on_span_over);
    deadline_arm(&p->deadline, SPAN_MIN_MS);
    http_request_on_close(req, on_closed, p);
}

void metrics_get(struct envd *envd, struct http_request *req, const char *basic)
{
    (void)envd;
    (void)basic;
    struct sample now = take_sample();
    int64_t span = now.at_ms - last.at_ms;
    if (!last.at_ms || span > SPAN_MAX_MS) {
        measure(req, &now);
        return;
    }
    if (span >= SPAN_MIN_MS) {
        last_pct = used_pct(&last, &now);
        last = now;
    }
    answer(req);
}
