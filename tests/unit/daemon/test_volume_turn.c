// SPDX-License-Identifier: Apache-2.0
// Turns of requests that change a volume: one at a time, also within this process, and without a
// thread that waits.
#include <stdlib.h>
#include <uv.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/daemon/api/volume_turn.h"
#include "tests/lib/harness/tap.h"

enum { TURNS = 3 };

static uv_loop_t loop;
static struct volume_space space = {.turns = TAILQ_HEAD_INITIALIZER(space.turns)};
static struct space other; // another process's
static struct volume_turn turns[TURNS];
static int called, closed;
static struct volume_turn *last;
static bool last_had_lock;

static void on_turn(struct volume_turn *t, bool has_lock)
{
    called++;
    last = t;
    last_had_lock = has_lock;
}

static void on_closed(struct deadline *d)
{
    (void)d;
    closed++;
}

static void until(int calls)
{
    while (called < calls)
        uv_run(&loop, UV_RUN_ONCE);
}

// Serve what is ready, without waiting for more.
static void serve(void)
{
    for (int i = 0; i < 10; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void test_one_at_a_time(void)
{
    called = 0;
    for (int i = 0; i < TURNS; i++)
        volume_turn_begin(&turns[i], &space);
    is_int(called, 0, "not at once");
    until(1);
    ok(last == &turns[0] && last_had_lock, "the first");
    serve();
    is_int(called, 1, "no other has a turn meanwhile");
    ok(!space_try_lock(&other), "nor another process");
    volume_turn_end(&turns[1]); // its client has gone
    volume_turn_end(&turns[0]);
    until(2);
    ok(last == &turns[2] && last_had_lock, "then the next one");
    volume_turn_end(&turns[2]);
    volume_turn_end(&turns[2]);
    ok(space_try_lock(&other), "all have ended");
    space_unlock(&other);
}

static void test_another_process(void)
{
    called = 0;
    ok(space_lock(&other), "another process has the lock");
    volume_turn_begin(&turns[0], &space);
    volume_turn_begin(&turns[1], &space);
    serve();
    is_int(called, 0, "nobody has a turn");
    space_unlock(&other);
    until(1);
    ok(last == &turns[0] && last_had_lock, "until it is unlocked");
    volume_turn_end(&turns[0]);
    until(2);
    ok(last == &turns[1] && last_had_lock, "the next one");
    ok(!space_try_lock(&other), "it has the lock");
    volume_turn_end(&turns[1]);

    space_lock(&other);
    volume_turn_begin(&turns[0], &space);
    until(3);
    ok(last == &turns[0] && !last_had_lock, "it waits for so long, and no longer");
    volume_turn_end(&turns[0]);
    ok(!space_try_lock(&space.space), "which unlocks nothing");
    space_unlock(&other);
}

int main(void)
{
    struct err e = ERR_INIT;
    uv_loop_init(&loop);
    is_int(space_make(&space.space, 1 << 20, &e), 0, "made");
    is_int(space_open(&other, space_share(&space.space, &e), &e), 0, "shared");
    for (int i = 0; i < TURNS; i++)
        volume_turn_init(&turns[i], &loop, on_turn);
    test_one_at_a_time();
    test_another_process();
    for (int i = 0; i < TURNS; i++)
        volume_turn_close(&turns[i], on_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    is_int(closed, TURNS, "closed");
    is_int(uv_loop_close(&loop), 0, "nothing is left in the loop");
    space_fini(&other);
    space_fini(&space.space);
    return tap_done();
}
