// SPDX-License-Identifier: Apache-2.0
// A libuv loop driven by straight-line code.
#include "sandbox-backend/template/pump.h"

#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/drivers/host/tool.h"

#define TICK_MS 100

static void on_tick(uv_timer_t *timer)
{
    struct pump *p = timer->data;
    if (p->tick)
        p->tick(p->ctx);
}

void pump_init(struct pump *p, void (*tick)(void *ctx), void *ctx)
{
    *p = (struct pump){.tick = tick, .ctx = ctx};
    if (uv_loop_init(&p->loop) < 0 || uv_timer_init(&p->loop, &p->timer) < 0)
        abort(); // no descriptor or memory for epoll, at the start of a program
    p->timer.data = p;
    uv_timer_start(&p->timer, on_tick, TICK_MS, TICK_MS);
}

void pump_fini(struct pump *p)
{
    uv_close((uv_handle_t *)&p->timer, NULL);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    uv_loop_close(&p->loop);
}

int pump_until(struct pump *p, const bool *done, uint64_t timeout_ms, const char *what,
               struct err *e)
{
    int64_t until = clock_mono_ms() + (int64_t)timeout_ms;
    while (!*done) {
        if (tool_interrupted())
            return err_set(e, ERR_CANCELED, "interrupted");
        if (err_is(&p->dead))
            return err_set(e, p->dead.code, "%s", p->dead.msg);
        if (clock_mono_ms() >= until)
            return err_set(e, ERR_TIMEOUT, "%s took longer than %llu s", what,
                           (unsigned long long)timeout_ms / 1000);
        uv_run(&p->loop, UV_RUN_ONCE); // the timer bounds the wait
    }
    return 0;
}

int pump_pause(struct pump *p, uint64_t ms, struct err *e)
{
    static const bool never = false;
    struct err passed = ERR_INIT;
    if (pump_until(p, &never, ms, "", &passed) < 0 && passed.code != ERR_TIMEOUT)
        return err_set(e, passed.code, "%s", passed.msg);
    return 0;
}
