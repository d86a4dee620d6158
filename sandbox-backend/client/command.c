// SPDX-License-Identifier: Apache-2.0
// A command in a sandbox: process.Process/Start, its output as it arrives, and exactly one end.
//
// Theory of operation. The stream has a start, data, an end, and a final envelope with the success
// of the call as a whole. deadline_exceeded there means that envd killed the command at its
// timeout. The result is known only after the final envelope. A stream that ends earlier is one of
// three cases:
//   - envd or the proxy refused: the command did not run;
//   - the stream broke and the sandbox has ended: fate.c finds that out, and why;
//   - the stream broke and the sandbox lives: the command's fate is unknown, and the error says so.
//     Nothing is run again.
// envd sends a keepalive when it has nothing else to send, so a silent stream is a broken one.
//
// Canceling closes the stream. That does not end the command (envd lets it run on for the next
// client that connects to it), so the operation then kills it by its pid. If the start has not
// arrived yet, the operation waits for it. When many commands are canceled at once, the way to the
// sandbox may refuse a kill; it is sent again, which is harmless: envd looks for the pid among its
// commands only.
//
// Where a proxy may hold streams back, each command has a tag, and held.c watches it: it finds the
// pid of a command whose start has not arrived, and says that a silent command still runs.
//
// A command that the caller leaves has its stream closed, and is not killed. A later operation may
// join it by its tag: the stream of process.Process/Connect is like that of Start.
//
//   STREAMING -> ASKING (the stream broke) -> DONE
//             -> KILLING (canceled or overdue) -> DONE
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/client/access.h"
#include "sandbox-backend/client/answer.h"
#include "sandbox-backend/client/call.h"
#include "sandbox-backend/client/client_internal.h"
#include "sandbox-backend/client/held.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/net/deadline.h"

#define OVERDUE_MS    15000 // past the command's own timeout, for envd to have ended it
#define KILL_START_MS 5000  // for a canceled command's start to arrive
#define KILL_MS       10000
#define KILL_AGAIN_MS 50 // before a refused kill is sent again, doubled each time:
#define KILLS_MAX     8  // about 6 s in all
#define TAG_BYTES     8  // random ones of a command's tag

static const char LOST[] =
    "the connection to the command broke, so it is not known whether the command finished";

enum command_state {
    COMMAND_STREAMING,
    COMMAND_ASKING, // the stream broke: does the sandbox live?
    COMMAND_KILLING,
    COMMAND_DONE,
};

struct command {
    struct client_op base;
    enum command_state state;
    struct call *call; // borrowed; NULL while none runs
    struct connect_reader reader;
    struct process_event event; // the one in hand
    struct command_events events;
    void *ctx;
    char *id;           // owned
    char *user;         // owned or NULL
    json_t *message;    // owned; the request
    int64_t timeout_ms; // the command's own; 0: none
    int64_t leave_ms;   // from its start until the caller leaves it; 0: no limit
    int64_t overdue_at; // on the monotonic clock; 0: no timeout, or not started
    int64_t pid;        // 0 before its start
    bool has_ended;     // its end is known, and in `result`
    bool is_garbled;    // the stream is invalid
    bool canceled;
    bool left;
    bool joins;        // follows a process that runs already
    bool must_kill;    // before the operation completes
    bool is_terminal;  // the command has a terminal
    struct held *held; // owned until held_stop; NULL: streams come as they are written
    bool is_held;      // its stream is held back
    bool is_over;      // the process has ended, and its held stream has not
    int kills;         // kills that were sent
    struct fate *fate; // borrowed; in ASKING
    struct command_result result;
    char status[PROCESS_STATUS_BYTES], error[PROCESS_STATUS_BYTES]; // result points to them
    struct err err;
    struct deadline silence; // the stream is silent for too long
};

// In the order in which they come.
static void start(struct command *op, const struct command_opts *opts);
static void on_stream_data(const char *data, size_t len, void *ctx);
static void on_stream_end(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void on_found(int64_t pid, void *ctx);
static void on_alive(void *ctx);
static void on_ended(void *ctx);
static void on_lost(const struct err *e, void *ctx);
static void on_fate(const struct err *e, void *ctx);
static void kill_it(struct command *op);
static void on_killed(int status, const char *body, size_t len, const struct err *e, void *ctx);
static void complete(struct command *op);
static void on_held_stopped(void *ctx);
static void on_silence_closed(struct deadline *deadline);

static void set_state(struct command *op, enum command_state to)
{
    static const unsigned ALLOWED[] = {
        [COMMAND_STREAMING] = 1u << COMMAND_ASKING | 1u << COMMAND_KILLING | 1u << COMMAND_DONE,
        [COMMAND_ASKING] = 1u << COMMAND_KILLING | 1u << COMMAND_DONE,
        [COMMAND_KILLING] = 1u << COMMAND_KILLING | 1u << COMMAND_DONE,
        [COMMAND_DONE] = 0,
    };
    assert(ALLOWED[op->state] & 1u << to);
    op->state = to;
}

// ---- 1. the start
static json_t *start_message(const struct command_opts *opts, struct err *e)
{
    json_t *args = json_array();
    for (const char *const *at = opts->args; at && *at; at++)
        if (json_array_append_new(args, json_string(*at)) < 0)
            err_set(e, ERR_INVALID, "an argument of the command is not UTF-8");
    json_t *process = json_object();
    json_object_set_new(process, "args", args);
    if (json_object_set_new(process, "cmd", json_string(opts->cmd)) < 0)
        err_set(e, ERR_INVALID, "the command is not UTF-8");
    if (opts->cwd && json_object_set_new(process, "cwd", json_string(opts->cwd)) < 0)
        err_set(e, ERR_INVALID, "the working directory is not UTF-8");
    if (opts->envs)
        json_object_set(process, "envs", opts->envs);
    json_t *message = json_pack("{s:o, s:b}", "process", process, "stdin", (int)opts->open_stdin);
    if (opts->columns > 0)
        json_object_set_new(
            message, "pty",
            json_pack("{s:{s:i, s:i}}", "size", "cols", opts->columns, "rows", opts->rows));
    if (opts->tag && json_object_set_new(message, "tag", json_string(opts->tag)) < 0)
        err_set(e, ERR_INVALID, "the tag is not UTF-8");
    return message;
}

static json_t *join_message(const struct command_opts *opts, struct err *e)
{
    json_t *message = json_pack("{s:{s:s}}", "process", "tag", opts->tag);
    if (!message)
        err_set(e, ERR_INVALID, "the tag is not UTF-8");
    return message ? message : json_object();
}

// An envd before 0.3 leaves every command's stdin open, and a command that reads it would wait for
// ever. So a shell closes it, and then becomes the command.
static void close_stdin(json_t *process)
{
    json_t *args = json_pack("[s, s]", "-c", "exec \"$0\" \"$@\" </dev/null");
    json_array_append(args, json_object_get(process, "cmd"));
    json_array_extend(args, json_object_get(process, "args"));
    json_object_set_new(process, "cmd", json_string("/bin/sh"));
    json_object_set_new(process, "args", args);
}

// Give the command a tag, if it has none, and watch for it.
static void watch_held(struct command *op)
{
    static const struct held_events EVENTS = {.on_found = on_found,
                                              .on_alive = on_alive,
                                              .on_ended = on_ended,
                                              .on_lost = on_lost,
                                              .on_stopped = on_held_stopped};
    const json_t *of = op->joins ? json_object_get(op->message, "process") : op->message;
    char *random auto_free = random_hex(TAG_BYTES);
    if (!op->joins && !json_object_get(op->message, "tag"))
        json_object_set_new(op->message, "tag", json_sprintf("cubby-%s", random));
    op->held = held_watch(op->base.client, op->id, json_string_value(json_object_get(of, "tag")),
                          op->user, &EVENTS, op);
}

static void on_access(struct call *call, const struct access *a, void *ctx)
{
    struct command *op = ctx;
    bool is_old = !op->joins && access_envd_older(a, 0, 3, 0);
    bool may_be_held = held_is_possible(op->base.client);
    struct buf body auto_buf = BUF_INIT;
    if (may_be_held)
        watch_held(op);
    if (is_old && !json_is_true(json_object_get(op->message, "stdin")))
        close_stdin(json_object_get(op->message, "process"));
    if (is_old)
        json_object_del(op->message, "stdin"); // which such an envd does not know
    if (!is_old && !may_be_held)
        return;
    connect_envelope_json(&body, op->message);
    call_set_body(call, &body);
}

static void arm(struct command *op)
{
    int64_t ms = (int64_t)op->base.client->times.silence;
    if (op->overdue_at && op->overdue_at - clock_mono_ms() < ms)
        ms = op->overdue_at - clock_mono_ms();
    deadline_arm(&op->silence, ms > 0 ? (uint64_t)ms : 0);
}

static void start(struct command *op, const struct command_opts *opts)
{
    static const struct call_events EVENTS = {
        .on_access = on_access, .on_data = on_stream_data, .on_end = on_stream_end};
    const char *method = op->joins ? "process.Process/Connect" : "process.Process/Start";
    struct err refused = ERR_INIT;
    op->message = op->joins ? join_message(opts, &refused) : start_message(opts, &refused);
    op->call = envd_call_stream(op->base.client, op->id, method, op->message, op->user,
                                opts->timeout_ms, &refused, &EVENTS, op);
    arm(op);
}

// ---- 2. the stream
// Return whether the result is known, whatever happens to the stream.
static bool is_settled(const struct command *op)
{
    return op->left || op->has_ended;
}

static void take_end(struct command *op)
{
    const struct process_event *ev = &op->event;
    if (op->has_ended)
        return;
    op->has_ended = true;
    memcpy(op->status, ev->status, sizeof op->status);
    memcpy(op->error, ev->error, sizeof op->error);
    op->result.end = ev->exited ? COMMAND_EXITED : COMMAND_SIGNALED;
    op->result.exit_code = ev->exit_code;
    op->result.error = op->error[0] ? op->error : NULL;
}

static void take_start(struct command *op, int64_t pid)
{
    if (op->pid || !pid)
        return;
    op->pid = pid;
    if (op->timeout_ms > 0)
        op->overdue_at = clock_mono_ms() + op->timeout_ms + OVERDUE_MS;
    else if (op->leave_ms > 0)
        op->overdue_at = clock_mono_ms() + op->leave_ms;
    if (op->canceled) {
        op->must_kill = true;
        call_cancel(op->call);
    } else if (op->events.on_start) {
        op->events.on_start(op->pid, op->ctx);
    }
}

static void take_event(struct command *op)
{
    const struct buf *data = &op->event.data;
    bool listening = !op->canceled && !op->has_ended && !op->left && data->len;
    switch (op->event.kind) {
    case PROCESS_STARTED:
        take_start(op, op->event.pid);
        break;
    case PROCESS_STDOUT:
        if (listening)
            op->events.on_stdout(data->data, data->len, op->ctx);
        break;
    case PROCESS_STDERR:
        if (listening)
            op->events.on_stderr(data->data, data->len, op->ctx);
        break;
    case PROCESS_ENDED:
        take_end(op);
        break;
    case PROCESS_OTHER:
        break;
    }
}

// The final envelope: {} or {"error":{...}}. envd's deadline is the command's timeout.
static int take_stream_end(struct command *op, const char *payload, size_t len, struct err *e)
{
    json_t *message = json_parse(payload, len, e);
    if (!message)
        return -1;
    struct err said = ERR_INIT;
    const json_t *error = json_object_get(message, "error");
    if (error && !json_is_null(error))
        connect_error_parse(error, &said);
    json_decref(message);
    if (said.code == ERR_TIMEOUT) {
        op->has_ended = true;
        op->result.end = COMMAND_TIMED_OUT;
    } else if (err_is(&said) && !op->has_ended) {
        op->err = said;
    }
    return 0;
}

static int on_envelope(uint8_t flags, const char *payload, size_t len, void *ctx)
{
    struct command *op = ctx;
    if (flags & CONNECT_FLAG_END)
        return take_stream_end(op, payload, len, &op->err);
    if (process_event_parse(payload, len, &op->event, &op->err) < 0)
        return -1;
    take_event(op);
    return 0;
}

static void on_stream_data(const char *data, size_t len, void *ctx)
{
    struct command *op = ctx;
    struct err e = ERR_INIT;
    if (op->state != COMMAND_STREAMING || op->reader.ended)
        return;
    if (op->held && !op->is_held) // the stream is not held back
        held_stop(op->held);
    bool understood = connect_reader_feed(&op->reader, data, len, on_envelope, op, &e) == 0;
    if (!op->canceled)
        arm(op);
    if (understood)
        return;
    op->is_garbled = true;
    if (!err_is(&op->err))
        op->err = e;
    op->err.code = ERR_INTERNAL;
    err_wrap(&op->err, "envd sent an invalid stream");
    call_cancel(op->call);
}

static void on_silence(struct deadline *deadline)
{
    struct command *op = container_of(deadline, struct command, silence);
    if (op->state == COMMAND_KILLING) {
        kill_it(op);
        return;
    }
    if (op->overdue_at && clock_mono_ms() >= op->overdue_at && !op->canceled) {
        op->has_ended = true;
        op->result.end = COMMAND_TIMED_OUT;
        op->must_kill = op->pid != 0;
    } else if (op->is_over && !op->canceled) {
        err_set(&op->err, ERR_UNAVAILABLE, "the command has ended, but its stream has not");
    } else if (!op->canceled) {
        err_set(&op->err, ERR_UNAVAILABLE, "envd sent nothing for %d s",
                (int)(op->base.client->times.silence / 1000));
    }
    if (op->call)
        call_cancel(op->call);
}

static void on_stream_end(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)body;
    (void)len;
    struct command *op = ctx;
    bool was_sent = call_may_have_been_sent(op->call);
    op->call = NULL;
    deadline_disarm(&op->silence);
    if (e && !op->canceled && !is_settled(op) && !op->reader.ended)
        err_set(&op->err, e->code, "%s", e->msg); // unless the reason is known already
    bool refused = status >= 300 && !(status == 502 && op->err.code == ERR_UNAVAILABLE);
    if (op->must_kill) {
        kill_it(op);
    } else if (op->canceled || is_settled(op) || op->reader.ended || op->is_garbled || !was_sent ||
               refused || (op->is_terminal && op->is_held)) {
        complete(op);
    } else {
        set_state(op, COMMAND_ASKING);
        op->fate = fate_ask(op->base.client, op->id, LOST, &op->err, on_fate, op);
    }
}

// ---- 2. a stream that is held back
static bool watches(const struct command *op)
{
    return op->state == COMMAND_STREAMING && op->call && !is_settled(op);
}

// A terminal is of no use if each keystroke's echo waits for 16 KiB.
static void refuse_terminal(struct command *op)
{
    err_set(&op->err, ERR_UNIMPLEMENTED,
            "the proxy on the way to the sandbox holds streams back (proxy_buffering in "
            "CubeProxy's nginx.conf), so a terminal cannot work; use --cube-master");
    op->must_kill = !op->joins;
    call_cancel(op->call);
}

static void on_found(int64_t pid, void *ctx)
{
    struct command *op = ctx;
    if (!watches(op))
        return;
    op->is_held = true;
    take_start(op, pid);
    if (!watches(op) || op->canceled)
        return;
    arm(op);
    if (op->is_terminal)
        refuse_terminal(op);
    else if (op->events.on_held)
        op->events.on_held(op->ctx);
}

static void on_alive(void *ctx)
{
    struct command *op = ctx;
    if (watches(op) && !op->canceled)
        arm(op);
}

static void on_ended(void *ctx)
{
    struct command *op = ctx;
    if (!watches(op) || op->canceled)
        return;
    op->is_over = true;
    deadline_arm(&op->silence, op->base.client->times.held_ending);
}

static void on_lost(const struct err *e, void *ctx)
{
    struct command *op = ctx;
    if (!watches(op) || op->canceled)
        return;
    err_set(&op->err, ERR_UNAVAILABLE, "%s", e->msg);
    call_cancel(op->call);
}

// ---- 3. the stream broke: why?
static void on_fate(const struct err *e, void *ctx)
{
    struct command *op = ctx;
    op->fate = NULL;
    op->err = *e;
    op->result.may_have_run = e->code == ERR_UNAVAILABLE;
    if (op->must_kill)
        kill_it(op);
    else
        complete(op);
}

// ---- 4. canceled, or overdue: the command is killed
static void cancel(struct client_op *base)
{
    struct command *op = container_of(base, struct command, base);
    if (op->canceled || op->state == COMMAND_DONE)
        return;
    op->canceled = true;
    if (op->state == COMMAND_KILLING)
        return;
    op->must_kill = op->pid && !op->has_ended;
    if (op->state == COMMAND_ASKING)
        fate_cancel(op->fate);
    else if (op->state == COMMAND_STREAMING && !op->pid && call_may_have_been_sent(op->call))
        deadline_arm(&op->silence, KILL_START_MS); // take_start cancels the call
    else
        call_cancel(op->call);
}

void client_leave(struct client_op *base)
{
    struct command *op = container_of(base, struct command, base);
    if (!op->pid || op->canceled || op->state != COMMAND_STREAMING)
        return;
    op->left = true;
    op->overdue_at = 0;
    call_cancel(op->call);
}

static void kill_it(struct command *op)
{
    static const struct call_events EVENTS = {.on_end = on_killed};
    json_t *request = json_pack("{s:{s:I}, s:s, s:b}", "process", "pid", (json_int_t)op->pid,
                                "signal", "SIGNAL_SIGKILL", "group", 1);
    set_state(op, COMMAND_KILLING);
    op->kills++;
    op->call = envd_call_unary(op->base.client, op->id, "process.Process/SendSignal", request,
                               op->user, KILL_MS, &EVENTS, op);
    json_decref(request);
}

// ERR_NOT_FOUND: the command has just ended.
static void on_killed(int status, const char *body, size_t len, const struct err *e, void *ctx)
{
    (void)status;
    (void)body;
    (void)len;
    struct command *op = ctx;
    bool again = e && (e->code == ERR_LIMIT || e->code == ERR_UNAVAILABLE);
    op->call = NULL;
    if (again && op->kills < KILLS_MAX)
        deadline_arm(&op->silence, (uint64_t)KILL_AGAIN_MS << (op->kills - 1));
    else
        complete(op);
}

// ---- 5. the end
static void complete(struct command *op)
{
    if (op->canceled) {
        op->err = ERR_INIT;
        err_set(&op->err, ERR_CANCELED, "canceled");
    } else if (!is_settled(op)) {
        if (!err_is(&op->err))
            op->result.may_have_run = true;
        err_set(&op->err, ERR_INTERNAL, "envd ended the command's stream without a result");
    } else {
        op->err = ERR_INIT;
    }
    set_state(op, COMMAND_DONE);
    if (op->held)
        held_stop(op->held);
    else
        deadline_close(&op->silence, on_silence_closed);
}

static void on_held_stopped(void *ctx)
{
    struct command *op = ctx;
    op->held = NULL;
    if (op->state == COMMAND_DONE)
        deadline_close(&op->silence, on_silence_closed);
}

static void tell_end(struct command *op)
{
    op->result.status = op->status;
    if (op->left && !op->has_ended)
        op->result.end = COMMAND_LEFT;
    if (err_is(&op->err))
        op->result.end = COMMAND_FAILED;
    if (err_is(&op->err) && op->err.code != ERR_GONE && (op->pid || op->is_garbled))
        op->result.may_have_run = true;
    op->events.on_end(&op->result, err_is(&op->err) ? &op->err : NULL, op->ctx);
}

static void on_silence_closed(struct deadline *deadline)
{
    struct command *op = container_of(deadline, struct command, silence);
    op_end(&op->base);
    tell_end(op);
    connect_reader_fini(&op->reader);
    buf_fini(&op->event.data);
    json_decref(op->message);
    free(op->id);
    free(op->user);
    free(op);
}

static struct command *command_new(struct client *c, const char *id,
                                   const struct command_opts *opts, void *ctx)
{
    struct command *op = xcalloc(1, sizeof *op);
    op->ctx = ctx;
    op->id = xstrdup(id);
    op->user = opts->user ? xstrdup(opts->user) : NULL;
    op->timeout_ms = opts->timeout_ms;
    op->leave_ms = opts->leave_ms;
    op->joins = opts->joins;
    op->is_terminal = opts->columns > 0;
    connect_reader_init(&op->reader, LIMIT_ENVELOPE_BYTES);
    deadline_init(&op->silence, c->loop, on_silence);
    op_begin(&op->base, c, cancel);
    return op;
}

struct client_op *client_command(struct client *c, const char *id, const struct command_opts *opts,
                                 const struct command_events *events, void *ctx)
{
    struct command *op = command_new(c, id, opts, ctx);
    op->events = *events;
    start(op, opts);
    return &op->base;
}
