// SPDX-License-Identifier: Apache-2.0
// Admission: headroom, the limits, and the admission queue.
#include "sandbox-backend/daemon/limits/admission.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/host/meminfo.h"
#include "tests/lib/harness/tap.h"

#define MB ((int64_t)1 << 20)
#define GB ((int64_t)1 << 30)

static void test_each(void)
{
    struct headroom h = {.total = 24 * GB};
    is_int(headroom_each(&h, 512 * MB), 64 * MB, "nothing is known: the least");
    h.measured = 90 * MB;
    h.measured_count = 3;
    is_int(headroom_each(&h, 512 * MB), 64 * MB, "others have less: the least");
    h.measured = 600 * MB;
    is_int(headroom_each(&h, 512 * MB), 200 * MB, "others have more: as much as they on average");
    is_int(headroom_each(&h, 128 * MB), 128 * MB, "but not more than its guest sees");
    is_int(headroom_each(&h, 32 * MB), 32 * MB, "nor does the least exceed that");
}

static void test_free(void)
{
    struct headroom h = {.total = 1000 * MB, .available = 500 * MB, .reserve_percent = 10};
    is_int(headroom_reserve(&h) / MB, 100, "the reserve is of all memory, not of what is left");
    is_int(headroom_free(&h) / MB, 400, "what is available above it");
    h.growing = 150 * MB;
    is_int(headroom_free(&h) / MB, 250, "less what young ones will still take");
    ok(headroom_fits(&h, headroom_free(&h)), "exactly that fits");
    ok(!headroom_fits(&h, headroom_free(&h) + 1), "a byte more does not");
    h.available = 200 * MB;
    ok(headroom_free(&h) < 0 && !headroom_fits(&h, 0), "below the reserve nothing fits");
    h.reserve_percent = 0;
    h.growing = 0;
    ok(headroom_fits(&h, 200 * MB), "without a reserve all of it");
}

static void test_unknown(void)
{
    const struct headroom h = {.reserve_percent = 10, .growing = 5 * GB};
    ok(headroom_fits(&h, GB), "a host that does not tell has no such limit");
}

// The goal of 24 GiB: 250 frozen ones and 40 that run, 40 MB each.
static void test_density(void)
{
    struct headroom h = {.total = 24 * GB, .reserve_percent = 10};
    h.available = 22 * GB - 290 * 40 * MB;
    h.measured = 39 * 40 * MB;
    h.measured_count = 39;
    h.growing = 39 * 24 * MB; // all of them young
    ok(headroom_fits(&h, headroom_each(&h, 512 * MB)), "the last of them fits");
}

// ---- admission of sandboxes that this test makes up
struct host {
    struct admission_load loads[4];
    size_t count;
    int given_up;
    struct admission admission;
    struct host_usage_sampler sampler;
    uv_loop_t loop;
    const char *order[4]; // who was admitted, in order
    size_t admitted;
    struct err refused;
};

static void each(void *ctx, const void *except, admission_visit visit, void *arg)
{
    const struct host *h = ctx;
    for (size_t i = 0; i < h->count; i++)
        if (&h->loads[i] != except)
            visit(&h->loads[i], arg);
}

static void give_up(void *ctx)
{
    struct host *h = ctx;
    h->given_up++;
}

static bool measure_next(void *ctx, int64_t older_ms)
{
    (void)ctx;
    (void)older_ms;
    return false;
}

static void host_init(struct host *h, int64_t wait_s)
{
    const struct admission_limits limits = {
        .sandboxes = 2, .memory_bytes = GB, .reserve_percent = 10, .wait_s = wait_s};
    const struct admission_source source = {.each = each, .give_up = give_up, .ctx = h};
    *h = (struct host){.count = 0};
    uv_loop_init(&h->loop);
    host_usage_init(&h->sampler, &h->loop, measure_next, NULL);
    admission_init(&h->admission, &h->loop, &limits, &source, &h->sampler);
}

static void host_fini(struct host *h)
{
    admission_close(&h->admission);
    host_usage_close(&h->sampler);
    uv_run(&h->loop, UV_RUN_DEFAULT);
    is_int(uv_loop_close(&h->loop), 0, "no handle is left");
}

struct asking {
    struct host *host;
    const char *name;
    struct ticket *ticket;
};

static void on_decided(const struct err *e, void *ctx)
{
    struct asking *a = ctx;
    struct host *h = a->host;
    ok(!a->ticket, "%s has no ticket any more", a->name);
    if (e)
        h->refused = *e;
    else
        h->order[h->admitted++] = a->name;
}

static enum admission_answer ask(struct asking *a, int64_t bytes, struct err *e)
{
    const struct admission_want want = {
        .id = a->name, .promised_bytes = bytes, .is_new = true, .ticket = &a->ticket};
    return admission_enter(&a->host->admission, &want, on_decided, a, e);
}

static void test_refusals(void)
{
    struct host h;
    host_init(&h, 0);
    struct asking a = {.host = &h, .name = "a"};
    struct err e = ERR_INIT;
    is_int(ask(&a, 512 * MB, &e), ADMISSION_NOW, "an empty host has room");
    h.loads[h.count++] = (struct admission_load){.promised_bytes = 768 * MB, .has_machine = true};
    is_int(ask(&a, 512 * MB, &e), ADMISSION_REFUSED, "too much is promised");
    ok(e.code == ERR_BUSY && e.retry_s > 0 && strstr(e.msg, "--max-memory"), "%s", e.msg);
    h.loads[0].has_machine = false; // hibernated
    h.loads[h.count++] = (struct admission_load){.promised_bytes = 256 * MB, .has_machine = true};
    e = ERR_INIT;
    is_int(ask(&a, 256 * MB, &e), ADMISSION_REFUSED, "there are too many");
    ok(strstr(e.msg, "--max-sandboxes"), "%s", e.msg);
    h.loads[1].is_pooled = true;
    is_int(ask(&a, 256 * MB, &e), ADMISSION_NOW, "a pool member is not counted as a sandbox");
    is_int((int)h.admission.refused, 2, "both refusals are counted");
    host_fini(&h);
}

static void test_queue(void)
{
    struct host h;
    host_init(&h, 60);
    struct asking large = {.host = &h, .name = "large"}, small = {.host = &h, .name = "small"};
    struct asking gone = {.host = &h, .name = "gone"};
    struct err e = ERR_INIT;
    h.loads[h.count++] = (struct admission_load){.promised_bytes = 512 * MB, .has_machine = true};
    is_int(ask(&large, 768 * MB, &e), ADMISSION_WAITS, "the large one waits");
    is_int(ask(&gone, 64 * MB, &e), ADMISSION_WAITS, "the next one does not overtake it");
    is_int(ask(&small, 64 * MB, &e), ADMISSION_WAITS, "nor does the third");
    ok(!admission_may_hand_out(&h.admission), "and the pool hands nothing out meanwhile");
    admission_leave(&gone.ticket);
    ok(!gone.ticket && h.admission.waiting == 2, "a ticket was given back");
    is_int(h.given_up, 0, "there is no pool member to give up");
    h.count = 0; // the other sandbox ended
    while (h.admitted < 2 && !err_is(&h.refused))
        uv_run(&h.loop, UV_RUN_ONCE);
    is_str(h.order[0], "large", "the first is admitted first");
    is_str(h.order[1], "small", "then the other");
    host_fini(&h);
}

static void test_pool_gives_way(void)
{
    struct host h;
    host_init(&h, 60);
    struct asking a = {.host = &h, .name = "a"};
    struct err e = ERR_INIT;
    h.loads[h.count++] =
        (struct admission_load){.promised_bytes = 768 * MB, .has_machine = true, .is_pooled = true};
    is_int(ask(&a, 512 * MB, &e), ADMISSION_WAITS, "a pool member takes the room");
    is_int(h.given_up, 1, "so it is given up");
    admission_leave(&a.ticket);
    host_fini(&h);
}

// A file that stands for /proc/meminfo, so that the host's own memory does not matter.
static char *make_meminfo(void)
{
    static const char TEXT[] = "MemTotal: 25165824 kB\nMemAvailable: 20971520 kB\n";
    char *path = xstrdup("/tmp/cubby-test-meminfo.XXXXXX");
    int fd auto_close = mkstemp(path);
    ok(write(fd, TEXT, sizeof TEXT - 1) == sizeof TEXT - 1, "a host of 24 GB");
    return path;
}

int main(void)
{
    test_each();
    test_free();
    test_unknown();
    test_density();
    char *meminfo = make_meminfo();
    meminfo_use(meminfo);
    test_refusals();
    test_queue();
    test_pool_gives_way();
    unlink(meminfo);
    free(meminfo);
    return tap_done();
}
