// SPDX-License-Identifier: Apache-2.0
// Commands whose end the client does not wait for: canceled, released, or open when the client
// closes.
#include "tests/lib/client/client_cmd.h"

// ---- canceling
static int refusals;

static void answer_busy(struct fake *fake, struct http_request *req, const char *target)
{
    if (strstr(target, "SendSignal") && refusals-- > 0)
        fake_json(req, refusals % 2 ? 429 : 502, "{\"code\":429,\"message\":\"full\"}");
    else
        cmd_answer_kill(fake, req, target);
}

static void test_cancel(void)
{
    const struct command_opts opts = {.cmd = "sleep"};
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = cmd_answer_kill;
    cmd_begin(FAKE_ID, &opts);
    client_cancel(cmd.op);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_CANCELED, "before it was sent");
    cmd_saw("");

    cmd.cancel_at_start = true;
    cmd_begin(FAKE_ID, &opts);
    fake_run(&cmd.fake);
    cmd.cancel_at_start = false;
    is_int(cmd.fake.err.code, ERR_CANCELED, "while it ran");
    cmd_saw(CMD_DETAIL CMD_START CMD_KILL);
    is_str(buf_str(&cmd.fake.body),
           "{\"process\":{\"pid\":7},\"signal\":\"SIGNAL_SIGKILL\",\"group\":true}", "killed");

    cmd.fake.answer = answer_busy;
    for (refusals = 3; refusals > 0;) {
        cmd.cancel_at_start = true;
        cmd_begin(FAKE_ID, &opts);
        fake_run(&cmd.fake);
        cmd.cancel_at_start = false;
    }
    is_int(cmd.fake.err.code, ERR_CANCELED, "when the way to the sandbox is full");
    cmd_saw(CMD_START CMD_KILL CMD_KILL CMD_KILL CMD_KILL);

    cmd.fake.held = NULL;
    cmd.fake.answer = cmd_answer_late_start;
    cmd_begin(FAKE_ID, &opts);
    while (!cmd.fake.held)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    client_cancel(cmd.op);
    cmd_begin_stream(cmd.fake.held);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_CANCELED, "before its start was known");
    cmd_saw(CMD_START CMD_KILL);
    is_str(buf_str(&cmd.events_seen), "", "a start after the cancel is not told");
    fake_close(&cmd.fake);
}

// ---- a command that is left
static enum command_end left_as;

static void on_start_leave(int64_t pid, void *ctx)
{
    (void)ctx;
    is_int(pid, 7, "its pid");
    client_leave(cmd.op);
}

static void on_left(const struct command_result *r, const struct err *e, void *ctx)
{
    left_as = r->end;
    fake_finish(ctx, e);
}

static void on_nothing(const char *data, size_t len, void *ctx)
{
    (void)data, (void)len, (void)ctx;
}

static bool stream_gone;

static void on_stream_gone(void *ctx)
{
    *(bool *)ctx = true;
}

static void answer_and_hold(struct fake *fake, struct http_request *req, const char *target)
{
    if (strstr(target, "Start"))
        http_request_on_close(req, on_stream_gone, &stream_gone);
    cmd_answer_kill(fake, req, target);
}

static void start(int64_t timeout_ms, int64_t leave_ms)
{
    const struct command_opts opts = {.cmd = "server",
                                      .tag = "t",
                                      .open_stdin = true,
                                      .timeout_ms = timeout_ms,
                                      .leave_ms = leave_ms};
    static const struct command_events EVENTS = {.on_start = on_start_leave,
                                                 .on_stdout = on_nothing,
                                                 .on_stderr = on_nothing,
                                                 .on_end = on_left};
    cmd.op = client_command(cmd.fake.client, FAKE_ID, &opts, &EVENTS, &cmd.fake);
}

static void test_start(void)
{
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = answer_and_hold;
    start(0, 0);
    fake_run(&cmd.fake);
    ok(!err_is(&cmd.fake.err) && left_as == COMMAND_LEFT, "left: %s", cmd.fake.err.msg);
    while (!stream_gone)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    cmd_saw(CMD_DETAIL CMD_START);
    is_str(cmd.fake.body.data + CONNECT_ENVELOPE_HEAD,
           "{\"process\":{\"args\":[],\"cmd\":\"server\"},\"stdin\":true,\"tag\":\"t\"}",
           "what is started");
    is_int((int64_t)cmd.fake.timeout.len, 0, "without a limit");
    start(60000, 0);
    fake_run(&cmd.fake);
    is_str(buf_str(&cmd.fake.timeout), "60000", "with one");

    buf_clear(&cmd.fake.seen);
    start(0, 0);
    client_cancel(cmd.op);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_CANCELED, "canceled before it was sent");
    cmd_saw("");
    cmd.fake.held = NULL;
    cmd.fake.answer = cmd_answer_late_start;
    start(0, 0);
    while (!cmd.fake.held)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    client_cancel(cmd.op);
    cmd_begin_stream(cmd.fake.held);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_CANCELED, "canceled while it starts");
    cmd_saw(CMD_START CMD_KILL);
    fake_close(&cmd.fake);
}

static void answer_no_start(struct fake *fake, struct http_request *req, const char *target)
{
    (void)target;
    (void)fake;
    http_response_header(req, "Content-Type", CONNECT_STREAM_TYPE);
    http_response_begin(req, 200, -1);
    cmd_end_stream(req, cmd.end_payload);
}

static void answer_expired(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    fake_json(req, 502, CMD_EXPIRED);
}

static void test_start_fails(void)
{
    fake_open(&cmd.fake, NULL);
    cmd_know_the_token();
    cmd.fake.answer = answer_no_start;
    cmd.end_payload = "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/x' is not\"}}";
    start(0, 0);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_INVALID, "refused by envd: %s", cmd.fake.err.msg);
    cmd.end_payload = "{}";
    start(0, 0);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_INTERNAL, "an end without a start: %s", cmd.fake.err.msg);
    cmd.end_payload = "{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}";
    start(1, 0);
    fake_run(&cmd.fake);
    is_int(left_as, COMMAND_TIMED_OUT, "over before its start");
    // A command that ends at once has started, too.
    cmd.fake.answer = cmd_answer_stream;
    cmd.end_event = "{\"event\":{\"end\":{\"exitCode\":127,\"exited\":true}}}";
    cmd.end_payload = "{}";
    start(0, 0);
    fake_run(&cmd.fake);
    ok(!err_is(&cmd.fake.err) && left_as != COMMAND_FAILED, "ended already: %s", cmd.fake.err.msg);
    cmd.fake.answer = answer_expired;
    start(0, 0);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_GONE, "the sandbox is gone: %s", cmd.fake.err.msg);
    fake_close(&cmd.fake);
}

// ---- a command that the caller leaves once it is ready, and that is never ready
static void test_never_left(void)
{
    const struct command_opts opts = {.cmd = "server", .leave_ms = 50};
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = cmd_answer_kill;
    cmd_begin(FAKE_ID, &opts);
    fake_run(&cmd.fake);
    ok(!err_is(&cmd.fake.err) && cmd.result.end == COMMAND_TIMED_OUT, "it ends: %s",
       cmd.fake.err.msg);
    cmd_saw(CMD_DETAIL CMD_START CMD_KILL);
    is_int((int64_t)cmd.fake.timeout.len, 0, "envd has no limit for it");

    cmd.fake.answer = answer_and_hold;
    stream_gone = false;
    start(0, 20);
    fake_run(&cmd.fake);
    ok(left_as == COMMAND_LEFT, "one that is left in time");
    while (!stream_gone)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    cmd_saw(CMD_START);
    fake_close(&cmd.fake);
}

// ---- many at once: each has a stream of its own, and none waits for another
#define MANY 300
static struct client_op *many[MANY];
static int many_started, many_ended, many_canceled;

static void on_many_start(int64_t pid, void *ctx)
{
    (void)pid;
    (void)ctx;
    many_started++;
}

static void on_many_end(const struct command_result *r, const struct err *e, void *ctx)
{
    (void)r;
    (void)ctx;
    many_ended++;
    many_canceled += e && e->code == ERR_CANCELED;
}

static void test_many(void)
{
    static const struct command_events EVENTS = {.on_start = on_many_start,
                                                 .on_stdout = cmd_on_stdout,
                                                 .on_stderr = cmd_on_stderr,
                                                 .on_end = on_many_end};
    const struct command_opts opts = {.cmd = "sleep"};
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = cmd_answer_kill;
    for (int i = 0; i < MANY; i++)
        many[i] = client_command(cmd.fake.client, FAKE_ID, &opts, &EVENTS, NULL);
    while (many_started < MANY)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    is_int(many_ended, 0, "all run side by side");
    for (int i = 0; i < MANY; i += 2)
        client_cancel(many[i]);
    while (many_ended < MANY / 2)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    is_int(many_canceled, MANY / 2, "every second one is canceled");
    for (int i = 1; i < MANY; i += 2)
        client_cancel(many[i]);
    while (many_ended < MANY)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    is_int(many_canceled, MANY, "and the others");
    char *seen auto_free = fake_seen(&cmd.fake);
    int kills = 0;
    for (const char *at = seen; (at = strstr(at, "SendSignal")); at++)
        kills++;
    is_int(kills, MANY, "each one was killed");
    fake_close(&cmd.fake);
}

static void test_close_kills(void)
{
    const struct command_opts opts = {.cmd = "sleep"};
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = cmd_answer_kill;
    cmd_begin(FAKE_ID, &opts);
    while (!cmd.events_seen.len)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    buf_clear(&cmd.fake.seen);
    client_close(cmd.fake.client, fake_on_closed, &cmd.fake);
    while (!cmd.fake.closed)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    is_int(cmd.fake.err.code, ERR_CANCELED, "closing the client cancels");
    cmd_saw(CMD_KILL);
    cmd.fake.done = false;
    cmd.fake.closed = 0;
    const struct client_opts again = {.home = cmd.fake.home};
    cmd.fake.client = client_new(&cmd.fake.loop, &again);
    fake_close(&cmd.fake);
}

int main(void)
{
    test_cancel();
    test_start();
    test_start_fails();
    test_never_left();
    test_many();
    test_close_kills();
    cmd_fini();
    return tap_done();
}
