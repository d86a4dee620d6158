// SPDX-License-Identifier: Apache-2.0
// A Start or Connect call that follows a process.
//
// When a client leaves, its follower ends and nothing else. The deadline of a Start is the
// process's time limit. When it kills the process, the call ends with deadline_exceeded after the
// process has ended and its output is delivered, at the latest after KILL_WAIT_MS.
#include "sandbox-backend/envd/process/process_rpc.h"

#include <inttypes.h>
#include <stdio.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/deadline.h"

#define KILL_WAIT_MS 1000 // a process in an uninterruptible wait does not die at once

struct follower {
    struct process_listener listener;
    struct rpc *call; // NULL after its end
    struct deadline timer;
    bool killed;        // the process was killed at the deadline of this call
    int64_t expires_ms; // 0: never; after a kill: the end of the wait
    int64_t keepalive_ms;
    int64_t sent_ms;
};

// ---- messages

static void send_start(struct follower *f, int64_t pid)
{
    char text[64];
    snprintf(text, sizeof text, "{\"event\":{\"start\":{\"pid\":%" PRId64 "}}}", pid);
    rpc_send_text(f->call, text);
    f->sent_ms = clock_mono_ms();
}

// Members with the default value are absent, as in all of protobuf's JSON.
static void send_end(struct follower *f, const struct process_end *end)
{
    char text[256];
    char code[32] = "";
    char error[PROCESS_STATUS_BYTES + 16] = "";
    if (end->exit_code)
        snprintf(code, sizeof code, "\"exitCode\":%d,", end->exit_code);
    if (end->failed)
        snprintf(error, sizeof error, ",\"error\":\"%s\"", end->status);
    snprintf(text, sizeof text, "{\"event\":{\"end\":{%s%s\"status\":\"%s\"%s}}}", code,
             end->exited ? "\"exited\":true," : "", end->status, error);
    rpc_send_text(f->call, text);
    rpc_end(f->call);
}

// ---- the end

static void on_timer_closed(struct deadline *timer)
{
    free(container_of(timer, struct follower, timer));
}

// The call has ended, or its client has left.
static void release(struct follower *f)
{
    if (f->call) {
        f->call->on_closed = NULL;
        f->call->on_blocked = NULL;
    }
    f->call = NULL;
    process_detach(&f->listener);
    deadline_close(&f->timer, on_timer_closed);
}

static void fail_expired(struct follower *f)
{
    struct err e = ERR_INIT;
    if (f->killed)
        err_set(&e, ERR_TIMEOUT, "the command ran longer than %" PRId64 " ms and was killed",
                f->call->timeout_ms);
    else
        err_set(&e, ERR_TIMEOUT, "the call took longer than %" PRId64 " ms", f->call->timeout_ms);
    rpc_fail(f->call, &e);
    release(f);
}

static void on_end(struct process_listener *l, const struct process_end *end)
{
    struct follower *f = container_of(l, struct follower, listener);
    if (f->killed) {
        fail_expired(f);
        return;
    }
    send_end(f, end);
    release(f);
}

static void on_call_closed(struct rpc *call)
{
    release(call->ctx);
}

// ---- output

static void on_output(struct process_listener *l, enum process_stream stream, const char *data,
                      size_t len)
{
    static const char *const PLACES[][4] = {
        [PROCESS_STDOUT] = {"event", "data", "stdout"},
        [PROCESS_STDERR] = {"event", "data", "stderr"},
        [PROCESS_PTY] = {"event", "data", "pty"},
    };
    struct follower *f = container_of(l, struct follower, listener);
    rpc_send_bytes(f->call, PLACES[stream], data, len);
    f->sent_ms = clock_mono_ms();
}

static void on_call_blocked(struct rpc *call, bool blocked)
{
    struct follower *f = call->ctx;
    process_set_blocked(&f->listener, blocked);
}

// ---- time

static void arm(struct follower *f)
{
    int64_t now = clock_mono_ms();
    int64_t next = f->sent_ms + f->keepalive_ms;
    if (f->expires_ms && f->expires_ms < next)
        next = f->expires_ms;
    deadline_arm(&f->timer, next > now ? (uint64_t)(next - now) : 0);
}

static void on_limit(struct process_listener *l)
{
    struct follower *f = container_of(l, struct follower, listener);
    f->killed = true;
    f->expires_ms = clock_mono_ms() + KILL_WAIT_MS;
    arm(f);
}

static void on_timer(struct deadline *timer)
{
    struct follower *f = container_of(timer, struct follower, timer);
    int64_t now = clock_mono_ms();
    if (f->expires_ms && now >= f->expires_ms) {
        fail_expired(f);
        return;
    }
    // A blocked client gets no keepalive.
    if (now - f->sent_ms >= f->keepalive_ms) {
        if (!f->listener.blocked)
            rpc_send_text(f->call, "{\"event\":{\"keepalive\":{}}}");
        f->sent_ms = now;
    }
    arm(f);
}

// ---- the beginning

void follower_new(struct rpc *call, struct process *p, bool started)
{
    struct follower *f = xcalloc(1, sizeof *f);
    f->call = call;
    f->listener = (struct process_listener){.on_output = on_output, .on_end = on_end};
    f->keepalive_ms = rpc_keepalive_ms(call);
    if (started)
        f->listener.on_limit = on_limit;
    else if (call->timeout_ms)
        f->expires_ms = clock_mono_ms() + call->timeout_ms;
    call->ctx = f;
    call->on_closed = on_call_closed;
    call->on_blocked = on_call_blocked;
    deadline_init(&f->timer, call->envd->loop, on_timer);
    send_start(f, process_pid(p));
    if (process_end(p)) {
        send_end(f, process_end(p));
        release(f);
        return;
    }
    process_attach(p, &f->listener);
    arm(f);
}
