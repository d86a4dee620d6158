// SPDX-License-Identifier: Apache-2.0
// Whether there is memory for one more sandbox.
#include "sandbox-backend/daemon/headroom.h"
#include "tests/lib/tap.h"

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

int main(void)
{
    test_each();
    test_free();
    test_unknown();
    test_density();
    return tap_done();
}
