// SPDX-License-Identifier: Apache-2.0
// The machine of a template build: a build that is given up gives up a machine that still starts.
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/deadline.h"
#include "sandbox-backend/template/trial.h"
#include "tests/lib/harness/tap.h"

// A driver whose machines start only to be given up.
struct slow_machine {
    struct machine machine;
    struct deadline turn;
    machine_ready_cb on_ready;
    void *ctx;
};

static struct pump pump;
static int abandoned;

static void on_turn_closed(struct deadline *d)
{
    struct slow_machine *m = container_of(d, struct slow_machine, turn);
    struct err e = ERR_INIT;
    err_set(&e, ERR_CANCELED, "given up");
    m->on_ready(NULL, &e, m->ctx);
    free(m);
}

static void give_up(struct machine *machine)
{
    abandoned++;
    deadline_close(&((struct slow_machine *)machine)->turn, on_turn_closed);
}

static void on_turn(struct deadline *d)
{
    (void)d;
    err_set(&pump.dead, ERR_CANCELED, "interrupted"); // what a signal does
}

static const struct driver DRIVER;
static struct machine *create(uv_loop_t *loop, const struct machine_spec *spec,
                              machine_ready_cb on_ready, machine_exit_cb on_exit, void *ctx)
{
    (void)spec;
    (void)on_exit;
    struct slow_machine *m = xcalloc(1, sizeof *m);
    *m = (struct slow_machine){.machine = {.driver = &DRIVER}, .on_ready = on_ready, .ctx = ctx};
    deadline_init(&m->turn, loop, on_turn);
    deadline_arm(&m->turn, 0);
    return &m->machine;
}

static const struct driver DRIVER = {
    .name = "slow", .create = create, .machine = {.abandon = give_up}};

int main(void)
{
    char dir[] = "/tmp/trial-XXXXXX";
    struct err e = ERR_INIT;
    ok(mkdtemp(dir), "a directory");
    pump_init(&pump, NULL, NULL);
    ok(!trial_start(&pump, &DRIVER, dir, &e), "the build is interrupted: %s", e.msg);
    pump_fini(&pump); // it would wait for ever
    is_int(abandoned, 1, "the machine was given up");
    return tap_done();
}
