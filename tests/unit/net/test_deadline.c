// SPDX-License-Identifier: Apache-2.0
// Deadlines on a loop.
#include "sandbox-backend/net/deadline.h"
#include "tests/lib/harness/tap.h"

static int expired, closed;

static void on_expired(struct deadline *d)
{
    (void)d;
    expired++;
}

static void on_closed(struct deadline *d)
{
    (void)d;
    closed++;
}

int main(void)
{
    uv_loop_t loop;
    uv_loop_init(&loop);
    struct deadline d;
    deadline_init(&d, &loop, on_expired);
    ok(!deadline_is_armed(&d), "not armed at first");
    deadline_arm(&d, 5);
    ok(deadline_is_armed(&d), "armed");
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(expired == 1 && !deadline_is_armed(&d), "it expires once");
    deadline_arm(&d, 1000000);
    deadline_arm(&d, 1);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(expired, 2, "arming again moves it");
    deadline_arm(&d, 1);
    deadline_disarm(&d);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(expired, 2, "disarmed it does not expire");
    deadline_arm(&d, 0);
    deadline_close(&d, on_closed);
    deadline_close(&d, on_closed);
    deadline_arm(&d, 0);
    is_int(closed, 0, "closing takes a turn");
    uv_run(&loop, UV_RUN_DEFAULT);
    ok(closed == 1 && expired == 2, "closed once, and silent since");
    is_int(uv_loop_close(&loop), 0, "nothing is left");
    return tap_done();
}
