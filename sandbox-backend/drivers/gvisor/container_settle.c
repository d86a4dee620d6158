// SPDX-License-Identifier: Apache-2.0
// Finding out, for an adopted machine, if its guest stands still.
//
// Usually a mark says whether it does (container_mark.c). But the earlier daemon may have ended
// between a mark and the call, or between the call and its answer. A Resume of a guest that runs
// would end the sentry, which cannot be asked how often it was stopped. So the guest is let go on:
//
//   1. Pause. When the sentry has answered, it has also obeyed any call of the earlier daemon. So
//      now there is at least one stop to take back.
//   2. Resume takes one stop back.
//   3. debug.Stacks shows whether the guest still stands (stacks.h). If it does, step 2 follows
//      again.
//
// The daemon pauses the machine again if it should be paused.
#include "sandbox-backend/drivers/gvisor/container.h"
#include "sandbox-backend/drivers/gvisor/stacks.h"
#include "sandbox-backend/log/log.h"

#define CALL_MS          20000
#define STOPS_MAX        8          // each daemon that ended in here has left one
#define STACKS_BYTES_MAX (32 << 20) // a thread of the guest has some kilobytes

static void on_stopped(const struct err *e, void *ctx);
static void on_gone_on(const struct err *e, void *ctx);
static void on_stacks(const json_t *result, void *ctx);
static void on_asked(const struct err *e, void *ctx);

static void call(struct container *c, const char *method, urpc_result_cb on_result, urpc_cb cb)
{
    const struct urpc_request request = {.method = method,
                                         .limit_ms = CALL_MS,
                                         .on_result = on_result,
                                         .answer_max = STACKS_BYTES_MAX};
    container__call_with(c, &request, cb);
}

// Take the answer to a call. False: the machine is ending, or ends now.
static bool goes_on(struct container *c, const struct err *e)
{
    struct err failed = ERR_INIT;
    c->call = NULL;
    if (c->core.state != MACHINE_STARTING)
        return false;
    if (e) {
        err_set(&failed, ERR_GONE, "it is not known whether the machine is paused: %s", e->msg);
        core_fail(&c->core, &failed);
    }
    return !e;
}

void container__settle(struct container *c)
{
    enum container_mark mark = container__marked(c);
    if (mark == MARK_CHANGING)
        call(c, "containerManager.Pause", NULL, on_stopped);
    else
        core_ready(&c->core, mark == MARK_PAUSED ? MACHINE_PAUSED : MACHINE_RUNNING);
}

static void on_stopped(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    if (goes_on(c, e))
        call(c, "containerManager.Resume", NULL, on_gone_on);
}

static void on_gone_on(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    if (goes_on(c, e))
        call(c, "debug.Stacks", on_stacks, on_asked);
}

static void on_stacks(const json_t *result, void *ctx)
{
    struct container *c = ctx;
    const char *text = json_string_value(result);
    c->found = text ? stacks_guest(text) : STACKS_UNKNOWN;
}

static void on_asked(const struct err *e, void *ctx)
{
    struct container *c = ctx;
    struct err failed = ERR_INIT;
    if (!goes_on(c, e))
        return;
    if (c->found == STACKS_STANDS && ++c->stops < STOPS_MAX) {
        call(c, "containerManager.Resume", NULL, on_gone_on);
        return;
    }
    if (c->found != STACKS_RUNS) {
        err_set(&failed, ERR_GONE, "gVisor's sentry does not let its guest go on");
        core_fail(&c->core, &failed);
        return;
    }
    if (container__mark(c, MARK_NONE, &failed) < 0)
        log_warn("container.mark", "id=%s error=\"%s\"", c->core.id, failed.msg);
    log_info("container.settled", "id=%s stops=%d", c->core.id, c->stops);
    core_ready(&c->core, MACHINE_RUNNING);
}
