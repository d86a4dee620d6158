// SPDX-License-Identifier: Apache-2.0
// Admission: may one more sandbox start on this host, or be woken from the disk?
#include "sandbox-backend/daemon/limits/admission.h"

#include <stdlib.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/host/meminfo.h"
#include "sandbox-backend/log/log.h"

// --max-memory is a backstop for the case that measuring errs, so it is wide. A guest of 512 MB
// that waits has 20 to 40 MB of its own under TCG, and so the host has room for about sixteen times
// its memory in promises.
#define PROMISE_TIMES   16
#define SANDBOXES       1000
#define RESERVE_PERCENT 10
#define WAIT_S          5

#define RETRY_S 5     // Retry-After of a refusal
#define USED_MS 10000 // where there is little room, figures older than this are measured again
#define MB      ((int64_t)1 << 20)

struct ticket {
    TAILQ_ENTRY(ticket) link;
    struct admission *admission; // borrowed
    struct admission_want want;
    admission_cb cb;
    void *ctx;
    int64_t since_ms;
};

static void on_look(struct deadline *d);

void admission_defaults(struct admission_limits *limits)
{
    *limits = (struct admission_limits){.sandboxes = SANDBOXES,
                                        .memory_bytes = group_memory_total() * PROMISE_TIMES,
                                        .reserve_percent = RESERVE_PERCENT,
                                        .wait_s = WAIT_S};
}

void admission_init(struct admission *a, uv_loop_t *loop, const struct admission_limits *limits,
                    const struct admission_source *source, struct host_usage_sampler *sampler)
{
    *a = (struct admission){.limits = *limits, .source = *source, .sampler = sampler};
    TAILQ_INIT(&a->tickets);
    deadline_init(&a->look, loop, on_look);
}

void admission_close(struct admission *a)
{
    deadline_close(&a->look, NULL);
}

// ---- 1. what sandboxes take
static void add_to_sums(const struct admission_load *load, void *arg)
{
    struct admission_sums *sums = arg;
    sums->pooled += load->is_pooled;
    sums->sandboxes += !load->is_pooled;
    sums->promised_bytes += load->has_machine ? load->promised_bytes : 0;
}

struct admission_sums admission_sum(const struct admission *a, const void *except)
{
    struct admission_sums sums = {0};
    a->source.each(a->source.ctx, except, add_to_sums, &sums);
    return sums;
}

static void add_measured(const struct admission_load *load, void *arg)
{
    struct headroom *h = arg;
    h->measured += load->is_measured ? load->used_bytes : 0;
    h->measured_count += load->is_measured;
}

static void add_growth(const struct admission_load *load, void *arg)
{
    struct headroom *h = arg;
    int64_t each = headroom_each(h, load->promised_bytes);
    if (load->grows && load->is_young && each > load->used_bytes)
        h->growing += each - load->used_bytes;
}

struct headroom admission_headroom(const struct admission *a, const void *except)
{
    struct headroom h = {.reserve_percent = a->limits.reserve_percent};
    struct meminfo info;
    meminfo_read(&info, NULL); // unreadable: this limit is not applied
    h.total = info.total;
    h.available = info.available;
    h.by_group = info.by_group;
    a->source.each(a->source.ctx, except, add_measured, &h);
    a->source.each(a->source.ctx, except, add_growth, &h);
    return h;
}

// ---- 2. headroom
int64_t headroom_reserve(const struct headroom *h)
{
    return h->total / 100 * h->reserve_percent;
}

int64_t headroom_each(const struct headroom *h, int64_t most)
{
    int64_t each = h->measured_count > 0 ? h->measured / h->measured_count : 0;
    if (each < ADMISSION_EXPECTED_BYTES)
        each = ADMISSION_EXPECTED_BYTES;
    return each < most ? each : most;
}

int64_t headroom_free(const struct headroom *h)
{
    return h->available - headroom_reserve(h) - h->growing;
}

bool headroom_fits(const struct headroom *h, int64_t need)
{
    return h->total <= 0 || need <= headroom_free(h);
}

// ---- 3. the limits
static int check_count(const struct admission *a, const struct admission_sums *sums, struct err *e)
{
    if (sums->sandboxes < a->limits.sandboxes)
        return 0;
    return err_set(e, ERR_BUSY,
                   "the limit of %lld sandboxes is reached (%lld exist); end a sandbox, or start "
                   "the daemon with a higher --max-sandboxes (CUBBY_MAX_SANDBOXES)",
                   (long long)a->limits.sandboxes, (long long)sums->sandboxes);
}

static int check_promises(const struct admission *a, const struct admission_want *want,
                          struct err *e)
{
    struct admission_sums sums = admission_sum(a, want->sandbox);
    int64_t limit_mb = a->limits.memory_bytes / MB;
    int64_t used_mb = sums.promised_bytes / MB;
    int64_t want_mb = want->promised_bytes / MB;
    if (want->is_new && check_count(a, &sums, e) < 0)
        return -1;
    if (used_mb + want_mb > limit_mb)
        return err_set(e, ERR_BUSY,
                       "the memory limit for all sandboxes is %lld MB: %lld MB are in use by %lld "
                       "sandboxes, and the new one needs %lld MB; end a sandbox, or start the "
                       "daemon with a higher --max-memory (CUBBY_MAX_MEMORY)",
                       (long long)limit_mb, (long long)used_mb, (long long)sums.sandboxes,
                       (long long)want_mb);
    return 0;
}

static int check_headroom(const struct admission *a, const struct admission_want *want,
                          struct err *e)
{
    struct headroom h = admission_headroom(a, want->sandbox);
    int64_t need = headroom_each(&h, want->promised_bytes);
    if (h.total && headroom_free(&h) < h.total / 4)
        host_usage_refresh(a->sampler, USED_MS, NULL, NULL);
    if (headroom_fits(&h, need))
        return 0;
    return err_set(e, ERR_BUSY,
                   "%s has no memory for another sandbox. Of %lld MB, %lld MB are available; %lld "
                   "MB must stay free, starting sandboxes will take %lld MB, and the new one needs "
                   "about %lld MB. End or hibernate sandboxes, or %slower --memory-reserve",
                   h.by_group ? "the daemon's control group" : "this host",
                   (long long)(h.total / MB), (long long)(h.available / MB),
                   (long long)(headroom_reserve(&h) / MB), (long long)(h.growing / MB),
                   (long long)(need / MB), h.by_group ? "raise its memory limit, or " : "");
}

static bool has_room(const struct admission *a, const struct admission_want *want, struct err *e)
{
    if (check_promises(a, want, e) == 0 && check_headroom(a, want, e) == 0)
        return true;
    e->retry_s = RETRY_S;
    return false;
}

static void make_room(const struct admission *a, const struct admission_want *want)
{
    struct admission_sums sums = admission_sum(a, want->sandbox);
    if (sums.pooled > 0 && check_count(a, &sums, NULL) == 0)
        a->source.give_up(a->source.ctx);
}

bool admission_may_hand_out(struct admission *a)
{
    struct admission_sums sums = admission_sum(a, NULL);
    return a->waiting == 0 && check_count(a, &sums, NULL) == 0;
}

bool admission_has_spare(struct admission *a, int64_t promised_bytes)
{
    struct admission_sums sums = admission_sum(a, NULL);
    struct headroom h = admission_headroom(a, NULL);
    return a->waiting == 0 && sums.sandboxes + sums.pooled + 1 < a->limits.sandboxes &&
           sums.promised_bytes + 2 * promised_bytes <= a->limits.memory_bytes &&
           headroom_fits(&h, 2 * headroom_each(&h, promised_bytes));
}

bool admission_has_room(const struct admission *a, int64_t promised_bytes)
{
    struct admission_want want = {.promised_bytes = promised_bytes, .is_new = true};
    struct headroom h = admission_headroom(a, NULL);
    return a->waiting == 0 && check_promises(a, &want, NULL) == 0 &&
           headroom_fits(&h, headroom_each(&h, promised_bytes));
}

static double part(double used, double limit)
{
    return limit > 0 && used < limit ? used / limit : 1;
}

// Processors that are all busy say that other nodes are better, but not that this one is full.
static double busy_processors(void)
{
    double average = 0;
    double busy =
        getloadavg(&average, 1) == 1 ? average / (double)sysconf(_SC_NPROCESSORS_ONLN) : 0;
    return busy < 0.9 ? busy : 0.9;
}

int admission_load_percent(const struct admission *a)
{
    struct admission_sums sums = admission_sum(a, NULL);
    struct headroom h = admission_headroom(a, NULL);
    double most = (double)(h.total - headroom_reserve(&h));
    const double parts[] = {
        part((double)sums.sandboxes, (double)a->limits.sandboxes),
        part((double)sums.promised_bytes, (double)a->limits.memory_bytes),
        h.total ? part(most - (double)headroom_free(&h), most) : 0,
        busy_processors(),
    };
    double load = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        load = parts[i] > load ? parts[i] : load;
    return (int)(load * 100);
}

// ---- 4. the queue
static bool join_queue(struct admission *a, const struct admission_want *want, admission_cb cb,
                       void *ctx)
{
    if (a->waiting >= ADMISSION_QUEUE_MAX)
        return false;
    struct ticket *t = xmalloc(sizeof *t);
    *t = (struct ticket){
        .admission = a, .want = *want, .cb = cb, .ctx = ctx, .since_ms = clock_mono_ms()};
    TAILQ_INSERT_TAIL(&a->tickets, t, link);
    *want->ticket = t;
    if (a->waiting++ == 0)
        deadline_arm(&a->look, ADMISSION_LOOK_MS);
    return true;
}

void admission_leave(struct ticket **ticket)
{
    struct ticket *t = steal(ticket);
    if (!t)
        return;
    struct admission *a = t->admission;
    TAILQ_REMOVE(&a->tickets, t, link);
    free(t);
    if (--a->waiting == 0)
        deadline_disarm(&a->look);
}

enum admission_answer admission_enter(struct admission *a, const struct admission_want *want,
                                      admission_cb cb, void *ctx, struct err *e)
{
    struct err why = ERR_INIT;
    if (a->waiting == 0 && has_room(a, want, &why))
        return ADMISSION_NOW;
    if (a->limits.wait_s > 0 && join_queue(a, want, cb, ctx)) {
        make_room(a, want);
        return ADMISSION_WAITS;
    }
    a->refused++;
    if (!err_is(&why))
        err_set(&why, ERR_BUSY, "%zu sandboxes already wait for room on this host; try again later",
                a->waiting);
    *e = why;
    e->retry_s = RETRY_S;
    return ADMISSION_REFUSED;
}

static void answer_ticket(struct ticket *t, const struct err *e)
{
    struct ticket told = *t;
    long long ms = clock_mono_ms() - told.since_ms;
    admission_leave(told.want.ticket);
    if (e)
        log_warn("admission.refused", "id=%s waited_ms=%lld error=\"%s\"", told.want.id, ms,
                 e->msg);
    else
        log_info("admission.admitted", "id=%s waited_ms=%lld", told.want.id, ms);
    told.cb(e, told.ctx);
}

// Return the first ticket in the queue if it can be admitted now or has timed out (`e` is then
// set), else NULL.
static struct ticket *first_decided(struct admission *a, struct err *e)
{
    struct ticket *t = TAILQ_FIRST(&a->tickets);
    if (!t || has_room(a, &t->want, e))
        return t;
    make_room(a, &t->want);
    return clock_mono_ms() >= t->since_ms + a->limits.wait_s * 1000 ? t : NULL;
}

static void on_look(struct deadline *d)
{
    struct admission *a = container_of(d, struct admission, look);
    struct err e = ERR_INIT;
    // The callback may do anything, also give back other tickets.
    for (struct ticket *t; (t = first_decided(a, &e)); e = ERR_INIT) {
        a->refused += err_is(&e);
        answer_ticket(t, err_is(&e) ? &e : NULL);
    }
    if (a->waiting)
        deadline_arm(&a->look, ADMISSION_LOOK_MS);
}
