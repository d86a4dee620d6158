// SPDX-License-Identifier: Apache-2.0
// Commands: the stream, its ends, and what is said when it breaks.
#include "tests/lib/client_fake.h"

static struct fake f;
static struct buf out, err_out, events_seen;
static struct command_result result;
static char status[128];
static struct client_op *op;
static bool cancel_at_start;

static void on_start(int64_t pid, void *ctx)
{
    (void)ctx;
    buf_printf(&events_seen, "start %d;", (int)pid);
    if (cancel_at_start)
        client_cancel(op);
}

static void on_stdout(const char *data, size_t len, void *ctx)
{
    (void)ctx;
    buf_add(&out, data, len);
}

static void on_stderr(const char *data, size_t len, void *ctx)
{
    (void)ctx;
    buf_add(&err_out, data, len);
}

static void on_end(const struct command_result *r, const struct err *e, void *ctx)
{
    result = *r;
    snprintf(status, sizeof status, "%s", r->status);
    fake_finish(ctx, e);
}

static void begin(const char *id, const struct command_opts *opts)
{
    static const struct command_events EVENTS = {on_start, on_stdout, on_stderr, on_end};
    buf_clear(&out);
    buf_clear(&err_out);
    buf_clear(&events_seen);
    op = client_command(f.client, id, opts, &EVENTS, &f);
}

static void run(int64_t timeout_ms)
{
    static const char *const ARGS[] = {"-c", "true", NULL};
    const struct command_opts opts = {.cmd = "sh", .args = ARGS, .timeout_ms = timeout_ms};
    begin(FAKE_ID, &opts);
    fake_run(&f);
}

static void saw(const char *want)
{
    char *seen auto_free = fake_seen(&f);
    is_str(seen, want, "requests");
}

#define START  "POST /process.Process/Start\n"
#define DETAIL "GET /sandboxes/" FAKE_ID "\n"

// ---- the server's side
static void message(struct http_request *req, const char *json)
{
    struct buf text auto_buf = BUF_INIT;
    connect_envelope(&text, 0, json, strlen(json));
    http_response_write(req, text.data, text.len);
}

static void begin_stream(struct http_request *req)
{
    http_response_header(req, "Content-Type", CONNECT_STREAM_TYPE);
    http_response_begin(req, 200, -1);
    message(req, "{\"event\":{\"start\":{\"pid\":7}}}");
}

static void end_stream(struct http_request *req, const char *payload)
{
    struct buf text auto_buf = BUF_INIT;
    connect_envelope(&text, CONNECT_FLAG_END, payload, strlen(payload));
    http_response_write(req, text.data, text.len);
    http_response_end(req);
}

static const char *end_event, *end_payload;

static void answer_stream(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    begin_stream(req);
    message(req, "{\"event\":{\"data\":{\"stdout\":\"aGkA\"}}}"); // "hi\0"
    message(req, "{\"event\":{\"keepalive\":{}}}");
    message(req, "{\"event\":{\"data\":{\"stderr\":\"b2g=\"}}}");
    if (end_event)
        message(req, end_event);
    end_stream(req, end_payload);
}

static void expect(const char *event, const char *payload, enum command_end end)
{
    end_event = event;
    end_payload = payload;
    run(0);
    is_int(result.end, end, "%s %s: %s", event ? event : "no end", payload, f.err.msg);
}

static void test_ends(void)
{
    fake_open(&f, NULL);
    f.answer = answer_stream;
    expect("{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}", "{}",
           COMMAND_EXITED);
    ok(!err_is(&f.err) && result.exit_code == 0 && !result.error, "exit 0 has no error");
    is_int((int64_t)out.len, 3, "stdout with a NUL in it");
    is_str(buf_str(&err_out), "oh", "stderr");
    is_str(buf_str(&events_seen), "start 7;", "started once");
    is_str(buf_str(&f.token), FAKE_TOKEN, "token");
    is_str(buf_str(&f.content_type), CONNECT_STREAM_TYPE, "type");
    is_int((int64_t)f.timeout.len, 0, "no timeout, no header");
    saw(DETAIL START);
    expect("{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\","
           "\"error\":\"exit status 3\"}}}",
           "{}", COMMAND_EXITED);
    is_int(result.exit_code, 3, "exit 3");
    is_str(status, "exit status 3", "status");
    expect("{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\"}}}", "{}",
           COMMAND_SIGNALED);
    is_str(status, "signal: killed", "status");
    expect(NULL, "{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}",
           COMMAND_TIMED_OUT);
    ok(!err_is(&f.err), "a timeout is a result, not an error");
    expect("{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\"}}}",
           "{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}", COMMAND_TIMED_OUT);
    expect(NULL, "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/x' is not\"}}",
           COMMAND_FAILED);
    is_int(f.err.code, ERR_INVALID, "refused by envd");
    is_str(f.err.msg, "cwd '/x' is not", "in its words");
    expect(NULL, "{}", COMMAND_FAILED);
    is_int(f.err.code, ERR_INTERNAL, "no result at all: %s", f.err.msg);
    saw(START START START START START START);
    run(1500);
    is_str(buf_str(&f.timeout), "1500", "the timeout is envd's to keep");
    fake_close(&f);
}

static void test_request(void)
{
    static const char *const ARGS[] = {"a", "b c", NULL};
    static const char *const BAD[] = {"\xff", NULL};
    fake_open(&f, NULL);
    f.answer = answer_stream;
    end_event = NULL;
    end_payload = "{}";
    json_t *envs = json_pack("{s:s}", "K", "v");
    const struct command_opts opts = {
        .cmd = "echo", .args = ARGS, .envs = envs, .cwd = "/tmp", .user = "root"};
    begin(FAKE_ID, &opts);
    fake_run(&f);
    is_str(f.body.data + CONNECT_ENVELOPE_HEAD,
           "{\"process\":{\"args\":[\"a\",\"b c\"],\"cmd\":\"echo\",\"cwd\":\"/tmp\","
           "\"envs\":{\"K\":\"v\"}},\"stdin\":false}",
           "what is started");
    is_str(buf_str(&f.user), "Basic cm9vdDo=", "by whom");
    buf_clear(&f.seen);
    const struct command_opts bad = {.cmd = "echo", .args = BAD};
    begin(FAKE_ID, &bad);
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "an argument that is not UTF-8: %s", f.err.msg);
    begin("nonsense", &opts);
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "a malformed id: %s", f.err.msg);
    json_decref(envs);
    saw("");
    fake_close(&f);
}

// ---- refused, broken, garbled
static int health_status, still_listed;
static const char *refusal, *detail;
static bool clean;

static void answer_break(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    if (strcmp(target, "/health") == 0 && health_status == 204) {
        http_respond(req, 204, NULL, NULL, 0);
    } else if (strcmp(target, "/health") == 0 || refusal) {
        fake_json(req, 502,
                  refusal ? refusal : "{\"sandboxId\":\"x\",\"port\":49983,\"message\":\"m\"}");
    } else if (strcmp(target, "/sandboxes/" FAKE_ID) == 0 && still_listed-- > 0) {
        fake_json(req, 200, FAKE_SANDBOX);
    } else if (strcmp(target, "/sandboxes/" FAKE_ID) == 0) {
        fake_json(req, 404, detail);
    } else {
        begin_stream(req);
        if (clean)
            http_response_end(req);
        else
            http_response_abort(req);
    }
}

#define ENDED "{\"code\":404,\"message\":\"qemu was killed\",\"error_code\":\"sandbox_ended\"}"

static void know_the_token(void)
{
    f.own_get = false;
    f.answer = answer_stream;
    end_event = "{\"event\":{\"end\":{\"exited\":true}}}";
    end_payload = "{}";
    run(0);
    ok(!err_is(&f.err), "a first command: %s", f.err.msg);
    f.own_get = true;
    f.answer = answer_break;
    buf_clear(&f.seen);
}

static void test_broken(void)
{
    fake_open(&f, NULL);
    know_the_token();
    health_status = 204;
    detail = ENDED;
    for (int i = 0; i < 2; i++) {
        clean = i == 1;
        run(0);
        is_int(result.end, COMMAND_FAILED, "no result");
        is_int(f.err.code, ERR_UNAVAILABLE, "the sandbox lives: %s", f.err.msg);
        saw(START "GET /health\n");
    }
    health_status = 502;
    run(0);
    is_int(f.err.code, ERR_GONE, "the sandbox is dead");
    is_str(f.err.msg, "qemu was killed", "and why");
    saw(START "GET /health\n" DETAIL);
    still_listed = 2;
    run(0);
    is_int(f.err.code, ERR_GONE, "the control plane learns of it last");
    saw(START "GET /health\n" DETAIL "GET /health\n" DETAIL "GET /health\n" DETAIL);
    still_listed = 1000;
    run(0);
    is_int(f.err.code, ERR_UNAVAILABLE, "envd stays away: %s", f.err.msg);
    still_listed = 1000;
    const struct command_opts opts = {.cmd = "x"};
    begin(FAKE_ID, &opts);
    while (still_listed == 1000)
        uv_run(&f.loop, UV_RUN_ONCE);
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "canceled in the meantime");
    still_listed = 0;
    buf_clear(&f.seen);
    detail = "{\"code\":404,\"message\":\"never heard of\"}";
    run(0);
    is_int(f.err.code, ERR_GONE, "it was there");
    buf_clear(&f.seen);
    refusal = "{\"sandboxId\":\"x\",\"message\":\"expired\",\"reason\":\"expired\",\"code\":502}";
    run(0);
    is_int(f.err.code, ERR_GONE, "refused by the proxy: %s", f.err.msg);
    saw(START);
    refusal = NULL;
    fake_close(&f);
}

// ---- paused
#define PAUSED "{\"message\":\"The sandbox was not found\",\"error_code\":\"sandbox_paused\"}"
#define LOST   "{\"sandboxId\":\"x\",\"message\":\"The sandbox was not found\",\"code\":502}"

static const char *proxy_says, *listed;
static bool breaks;

static void answer_proxy(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    if (strcmp(target, "/sandboxes/" FAKE_ID) == 0) {
        fake_json(req, listed ? 200 : 404, listed ? listed : "{\"code\":404,\"message\":\"m\"}");
    } else if (strstr(target, "/Start") && breaks) {
        begin_stream(req);
        http_response_abort(req);
    } else {
        fake_json(req, 502, proxy_says);
    }
}

static void run_paused(const char *says, bool must_break, enum err_code code, const char *requests)
{
    proxy_says = says;
    breaks = must_break;
    run(0);
    is_int(f.err.code, code, "%s a command: %s", must_break ? "under" : "before", f.err.msg);
    ok(result.may_have_run == (must_break && code == ERR_UNAVAILABLE), "whether it may have run");
    ok(code == ERR_GONE || strstr(f.err.msg, "is paused"), "which is said");
    saw(requests);
}

static void on_rpc(const json_t *answer, const struct err *e, void *ctx)
{
    ok(!answer, "no answer");
    fake_finish(ctx, e);
}

static void test_paused(void)
{
    fake_open(&f, NULL);
    know_the_token();
    f.answer = answer_proxy;
    run_paused(PAUSED, false, ERR_CONFLICT, START);
    run_paused(PAUSED, true, ERR_UNAVAILABLE, START "GET /health\n");
    listed = "{\"sandboxID\":\"" FAKE_ID "\",\"state\":\"paused\"}";
    run_paused(LOST, false, ERR_CONFLICT, START DETAIL);
    run_paused(LOST, true, ERR_UNAVAILABLE, START "GET /health\n" DETAIL);
    listed = "{\"sandboxID\":\"" FAKE_ID "\",\"state\":\"running\"}";
    json_t *none = json_object();
    client_rpc(f.client, FAKE_ID, "process.Process/List", none, NULL, on_rpc, &f);
    json_decref(none);
    fake_run(&f);
    is_int(f.err.code, ERR_UNAVAILABLE, "one that runs is not gone: %s", f.err.msg);
    buf_clear(&f.seen);
    listed = NULL;
    run_paused(LOST, false, ERR_GONE, START DETAIL);
    fake_close(&f);
}

static void answer_garbage(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    begin_stream(req);
    message(req, "{\"event\":");
    end_stream(req, "{}");
}

static void answer_endless_envelope(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    begin_stream(req);
    http_response_write(req, "\0\xff\xff\xff\xff", 5);
    http_response_end(req);
}

static void test_garbled(void)
{
    fake_open(&f, NULL);
    f.answer = answer_garbage;
    run(0);
    is_int(f.err.code, ERR_INTERNAL, "not JSON: %s", f.err.msg);
    f.answer = answer_endless_envelope;
    run(0);
    is_int(f.err.code, ERR_INTERNAL, "an envelope of 4 GB: %s", f.err.msg);
    fake_close(&f);
}

// ---- canceling
static void answer_kill(struct fake *fake, struct http_request *req, const char *target)
{
    if (strstr(target, "SendSignal")) {
        fake_json(req, 200, "{}");
    } else {
        begin_stream(req);
        fake->held = req; // until its connection is closed
    }
}

static int refusals;

static void answer_busy(struct fake *fake, struct http_request *req, const char *target)
{
    if (strstr(target, "SendSignal") && refusals-- > 0)
        fake_json(req, refusals % 2 ? 429 : 502, "{\"code\":429,\"message\":\"full\"}");
    else
        answer_kill(fake, req, target);
}

static void answer_late_start(struct fake *fake, struct http_request *req, const char *target)
{
    (void)target;
    if (!fake->held)
        fake->held = req;
    else
        fake_json(req, 200, "{}");
}

static void test_cancel(void)
{
    const struct command_opts opts = {.cmd = "sleep"};
    fake_open(&f, NULL);
    f.answer = answer_kill;
    begin(FAKE_ID, &opts);
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "before it was sent");
    saw("");

    cancel_at_start = true;
    begin(FAKE_ID, &opts);
    fake_run(&f);
    cancel_at_start = false;
    is_int(f.err.code, ERR_CANCELED, "while it ran");
    saw(DETAIL START "POST /process.Process/SendSignal\n");
    is_str(buf_str(&f.body), "{\"process\":{\"pid\":7},\"signal\":\"SIGNAL_SIGKILL\"}", "killed");

    f.answer = answer_busy;
    for (refusals = 3; refusals > 0;) {
        cancel_at_start = true;
        begin(FAKE_ID, &opts);
        fake_run(&f);
        cancel_at_start = false;
    }
    is_int(f.err.code, ERR_CANCELED, "when the way to the sandbox is full");
#define KILL "POST /process.Process/SendSignal\n"
    saw(START KILL KILL KILL KILL);

    f.held = NULL;
    f.answer = answer_late_start;
    begin(FAKE_ID, &opts);
    while (!f.held)
        uv_run(&f.loop, UV_RUN_ONCE);
    client_cancel(op);
    begin_stream(f.held);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "before its start was known");
    saw(START "POST /process.Process/SendSignal\n");
    is_str(buf_str(&events_seen), "", "a start after the cancel is not told");
    fake_close(&f);
}

// ---- a command that is left
static enum command_end left_as;

static void on_start_leave(int64_t pid, void *ctx)
{
    (void)ctx;
    is_int(pid, 7, "its pid");
    client_leave(op);
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
    answer_kill(fake, req, target);
}

static void start(int64_t timeout_ms)
{
    const struct command_opts opts = {
        .cmd = "server", .tag = "t", .open_stdin = true, .timeout_ms = timeout_ms};
    static const struct command_events EVENTS = {.on_start = on_start_leave,
                                                 .on_stdout = on_nothing,
                                                 .on_stderr = on_nothing,
                                                 .on_end = on_left};
    op = client_command(f.client, FAKE_ID, &opts, &EVENTS, &f);
}

static void test_start(void)
{
    fake_open(&f, NULL);
    f.answer = answer_and_hold;
    start(0);
    fake_run(&f);
    ok(!err_is(&f.err) && left_as == COMMAND_LEFT, "left: %s", f.err.msg);
    while (!stream_gone)
        uv_run(&f.loop, UV_RUN_ONCE);
    saw(DETAIL START);
    is_str(f.body.data + CONNECT_ENVELOPE_HEAD,
           "{\"process\":{\"args\":[],\"cmd\":\"server\"},\"stdin\":true,\"tag\":\"t\"}",
           "what is started");
    is_int((int64_t)f.timeout.len, 0, "without a limit");
    start(60000);
    fake_run(&f);
    is_str(buf_str(&f.timeout), "60000", "with one");

    buf_clear(&f.seen);
    start(0);
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "canceled before it was sent");
    saw("");
    f.held = NULL;
    f.answer = answer_late_start;
    start(0);
    while (!f.held)
        uv_run(&f.loop, UV_RUN_ONCE);
    client_cancel(op);
    begin_stream(f.held);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "canceled while it starts");
    saw(START "POST /process.Process/SendSignal\n");
    fake_close(&f);
}

static void answer_no_start(struct fake *fake, struct http_request *req, const char *target)
{
    (void)target;
    (void)fake;
    http_response_header(req, "Content-Type", CONNECT_STREAM_TYPE);
    http_response_begin(req, 200, -1);
    end_stream(req, end_payload);
}

static void test_start_fails(void)
{
    fake_open(&f, NULL);
    know_the_token();
    f.answer = answer_no_start;
    end_payload = "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/x' is not\"}}";
    start(0);
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "refused by envd: %s", f.err.msg);
    end_payload = "{}";
    start(0);
    fake_run(&f);
    is_int(f.err.code, ERR_INTERNAL, "an end without a start: %s", f.err.msg);
    end_payload = "{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}";
    start(1);
    fake_run(&f);
    is_int(left_as, COMMAND_TIMED_OUT, "over before its start");
    // One that ends at once has started all the same.
    f.answer = answer_stream;
    end_event = "{\"event\":{\"end\":{\"exitCode\":127,\"exited\":true}}}";
    end_payload = "{}";
    start(0);
    fake_run(&f);
    ok(!err_is(&f.err) && left_as != COMMAND_FAILED, "ended already: %s", f.err.msg);
    f.answer = answer_break;
    health_status = 502;
    detail = ENDED;
    refusal = "{\"sandboxId\":\"x\",\"message\":\"expired\",\"reason\":\"expired\",\"code\":502}";
    start(0);
    fake_run(&f);
    is_int(f.err.code, ERR_GONE, "the sandbox is gone: %s", f.err.msg);
    refusal = NULL;
    fake_close(&f);
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
    static const struct command_events EVENTS = {on_many_start, on_stdout, on_stderr, on_many_end};
    const struct command_opts opts = {.cmd = "sleep"};
    fake_open(&f, NULL);
    f.answer = answer_kill;
    for (int i = 0; i < MANY; i++)
        many[i] = client_command(f.client, FAKE_ID, &opts, &EVENTS, NULL);
    while (many_started < MANY)
        uv_run(&f.loop, UV_RUN_ONCE);
    is_int(many_ended, 0, "all run side by side");
    for (int i = 0; i < MANY; i += 2)
        client_cancel(many[i]);
    while (many_ended < MANY / 2)
        uv_run(&f.loop, UV_RUN_ONCE);
    is_int(many_canceled, MANY / 2, "every second one is canceled");
    for (int i = 1; i < MANY; i += 2)
        client_cancel(many[i]);
    while (many_ended < MANY)
        uv_run(&f.loop, UV_RUN_ONCE);
    is_int(many_canceled, MANY, "and the others");
    char *seen auto_free = fake_seen(&f);
    int kills = 0;
    for (const char *at = seen; (at = strstr(at, "SendSignal")); at++)
        kills++;
    is_int(kills, MANY, "each one was killed");
    fake_close(&f);
}

static void test_close_kills(void)
{
    const struct command_opts opts = {.cmd = "sleep"};
    fake_open(&f, NULL);
    f.answer = answer_kill;
    begin(FAKE_ID, &opts);
    while (!events_seen.len)
        uv_run(&f.loop, UV_RUN_ONCE);
    buf_clear(&f.seen);
    client_close(f.client, fake_on_closed, &f);
    while (!f.closed)
        uv_run(&f.loop, UV_RUN_ONCE);
    is_int(f.err.code, ERR_CANCELED, "closing the client cancels");
    saw("POST /process.Process/SendSignal\n");
    f.done = false;
    f.closed = 0;
    const struct client_opts again = {.home = f.home};
    f.client = client_new(&f.loop, &again);
    fake_close(&f);
}

int main(void)
{
    test_ends();
    test_request();
    test_broken();
    test_paused();
    test_garbled();
    test_cancel();
    test_start();
    test_start_fails();
    test_many();
    test_close_kills();
    buf_fini(&out);
    buf_fini(&err_out);
    buf_fini(&events_seen);
    return tap_done();
}
