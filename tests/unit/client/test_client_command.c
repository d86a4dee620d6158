// SPDX-License-Identifier: Apache-2.0
// Commands: the request, the stream and its ends, and the error of a broken stream.
#include "tests/lib/client/client_cmd.h"

static void expect(const char *event, const char *payload, enum command_end end)
{
    cmd.end_event = event;
    cmd.end_payload = payload;
    cmd_run(0);
    is_int(cmd.result.end, end, "%s %s: %s", event ? event : "no end", payload, cmd.fake.err.msg);
}

static void test_ends(void)
{
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = cmd_answer_stream;
    expect("{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}", "{}",
           COMMAND_EXITED);
    ok(!err_is(&cmd.fake.err) && cmd.result.exit_code == 0 && !cmd.result.error,
       "exit 0 has no error");
    is_int((int64_t)cmd.out.len, 3, "stdout with a NUL in it");
    is_str(buf_str(&cmd.err_out), "oh", "stderr");
    is_str(buf_str(&cmd.events_seen), "start 7;", "started once");
    is_str(buf_str(&cmd.fake.token), FAKE_TOKEN, "token");
    is_str(buf_str(&cmd.fake.content_type), CONNECT_STREAM_TYPE, "type");
    is_int((int64_t)cmd.fake.timeout.len, 0, "no timeout, no header");
    cmd_saw(CMD_DETAIL CMD_START);
    expect("{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\","
           "\"error\":\"exit status 3\"}}}",
           "{}", COMMAND_EXITED);
    is_int(cmd.result.exit_code, 3, "exit 3");
    is_str(cmd.status, "exit status 3", "status");
    expect("{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\"}}}", "{}",
           COMMAND_SIGNALED);
    is_str(cmd.status, "signal: killed", "status");
    expect(NULL, "{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}",
           COMMAND_TIMED_OUT);
    ok(!err_is(&cmd.fake.err), "a timeout is a result, not an error");
    expect("{\"event\":{\"end\":{\"exitCode\":-1,\"status\":\"signal: killed\"}}}",
           "{\"error\":{\"code\":\"deadline_exceeded\",\"message\":\"m\"}}", COMMAND_TIMED_OUT);
    expect(NULL, "{\"error\":{\"code\":\"invalid_argument\",\"message\":\"cwd '/x' is not\"}}",
           COMMAND_FAILED);
    is_int(cmd.fake.err.code, ERR_INVALID, "refused by envd");
    is_str(cmd.fake.err.msg, "cwd '/x' is not", "in its words");
    expect(NULL, "{}", COMMAND_FAILED);
    is_int(cmd.fake.err.code, ERR_INTERNAL, "no result at all: %s", cmd.fake.err.msg);
    cmd_saw(CMD_START CMD_START CMD_START CMD_START CMD_START CMD_START);
    cmd_run(1500);
    is_str(buf_str(&cmd.fake.timeout), "1500", "the timeout is envd's to keep");
    fake_close(&cmd.fake);
}

static void test_request(void)
{
    static const char *const ARGS[] = {"a", "b c", NULL};
    static const char *const BAD[] = {"\xff", NULL};
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = cmd_answer_stream;
    cmd.end_event = NULL;
    cmd.end_payload = "{}";
    json_t *envs = json_pack("{s:s}", "K", "v");
    const struct command_opts opts = {
        .cmd = "echo", .args = ARGS, .envs = envs, .cwd = "/tmp", .user = "root"};
    cmd_begin(FAKE_ID, &opts);
    fake_run(&cmd.fake);
    is_str(cmd.fake.body.data + CONNECT_ENVELOPE_HEAD,
           "{\"process\":{\"args\":[\"a\",\"b c\"],\"cmd\":\"echo\",\"cwd\":\"/tmp\","
           "\"envs\":{\"K\":\"v\"}},\"stdin\":false}",
           "what is started");
    is_str(buf_str(&cmd.fake.user), "Basic cm9vdDo=", "by whom");
    buf_clear(&cmd.fake.seen);
    const struct command_opts bad = {.cmd = "echo", .args = BAD};
    cmd_begin(FAKE_ID, &bad);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_INVALID, "an argument that is not UTF-8: %s", cmd.fake.err.msg);
    cmd_begin("nonsense", &opts);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_INVALID, "a malformed id: %s", cmd.fake.err.msg);
    json_decref(envs);
    cmd_saw("");
    fake_close(&cmd.fake);
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
        cmd_begin_stream(req);
        if (clean)
            http_response_end(req);
        else
            http_response_abort(req);
    }
}

#define ENDED "{\"code\":404,\"message\":\"qemu was killed\",\"error_code\":\"sandbox_ended\"}"

static void test_broken(void)
{
    fake_open(&cmd.fake, NULL);
    cmd_know_the_token();
    cmd.fake.answer = answer_break;
    health_status = 204;
    detail = ENDED;
    for (int i = 0; i < 2; i++) {
        clean = i == 1;
        cmd_run(0);
        is_int(cmd.result.end, COMMAND_FAILED, "no result");
        is_int(cmd.fake.err.code, ERR_UNAVAILABLE, "the sandbox lives: %s", cmd.fake.err.msg);
        cmd_saw(CMD_START "GET /health\n");
    }
    health_status = 502;
    cmd_run(0);
    is_int(cmd.fake.err.code, ERR_GONE, "the sandbox is dead");
    is_str(cmd.fake.err.msg, "qemu was killed", "and why");
    cmd_saw(CMD_START "GET /health\n" CMD_DETAIL);
    still_listed = 2;
    cmd_run(0);
    is_int(cmd.fake.err.code, ERR_GONE, "the control plane learns of it last");
    cmd_saw(CMD_START "GET /health\n" CMD_DETAIL "GET /health\n" CMD_DETAIL
                      "GET /health\n" CMD_DETAIL);
    still_listed = 1000;
    cmd_run(0);
    is_int(cmd.fake.err.code, ERR_UNAVAILABLE, "envd stays away: %s", cmd.fake.err.msg);
    still_listed = 1000;
    const struct command_opts opts = {.cmd = "x"};
    cmd_begin(FAKE_ID, &opts);
    while (still_listed == 1000)
        uv_run(&cmd.fake.loop, UV_RUN_ONCE);
    client_cancel(cmd.op);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_CANCELED, "canceled in the meantime");
    still_listed = 0;
    buf_clear(&cmd.fake.seen);
    detail = "{\"code\":404,\"message\":\"never heard of\"}";
    cmd_run(0);
    is_int(cmd.fake.err.code, ERR_GONE, "it was there");
    buf_clear(&cmd.fake.seen);
    refusal = CMD_EXPIRED;
    cmd_run(0);
    is_int(cmd.fake.err.code, ERR_GONE, "refused by the proxy: %s", cmd.fake.err.msg);
    cmd_saw(CMD_START);
    refusal = NULL;
    fake_close(&cmd.fake);
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
        cmd_begin_stream(req);
        http_response_abort(req);
    } else {
        fake_json(req, 502, proxy_says);
    }
}

static void run_paused(const char *says, bool must_break, enum err_code code, const char *requests)
{
    proxy_says = says;
    breaks = must_break;
    cmd_run(0);
    is_int(cmd.fake.err.code, code, "%s a command: %s", must_break ? "under" : "before",
           cmd.fake.err.msg);
    ok(cmd.result.may_have_run == (must_break && code == ERR_UNAVAILABLE),
       "whether it may have run");
    ok(code == ERR_GONE || strstr(cmd.fake.err.msg, "is paused"), "which is said");
    cmd_saw(requests);
}

static void on_rpc(const json_t *answer, const struct err *e, void *ctx)
{
    ok(!answer, "no answer");
    fake_finish(ctx, e);
}

static void test_paused(void)
{
    fake_open(&cmd.fake, NULL);
    cmd_know_the_token();
    cmd.fake.answer = answer_proxy;
    run_paused(PAUSED, false, ERR_CONFLICT, CMD_START);
    run_paused(PAUSED, true, ERR_UNAVAILABLE, CMD_START "GET /health\n");
    listed = "{\"sandboxID\":\"" FAKE_ID "\",\"state\":\"paused\"}";
    run_paused(LOST, false, ERR_CONFLICT, CMD_START CMD_DETAIL);
    run_paused(LOST, true, ERR_UNAVAILABLE, CMD_START "GET /health\n" CMD_DETAIL);
    listed = "{\"sandboxID\":\"" FAKE_ID "\",\"state\":\"running\"}";
    json_t *none = json_object();
    client_rpc(cmd.fake.client, FAKE_ID, "process.Process/List", none, NULL, on_rpc, &cmd.fake);
    json_decref(none);
    fake_run(&cmd.fake);
    is_int(cmd.fake.err.code, ERR_UNAVAILABLE, "one that runs is not gone: %s", cmd.fake.err.msg);
    buf_clear(&cmd.fake.seen);
    listed = NULL;
    run_paused(LOST, false, ERR_GONE, CMD_START CMD_DETAIL);
    fake_close(&cmd.fake);
}

static void answer_garbage(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    cmd_begin_stream(req);
    cmd_message(req, "{\"event\":");
    cmd_end_stream(req, "{}");
}

static void answer_endless_envelope(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    cmd_begin_stream(req);
    http_response_write(req, "\0\xff\xff\xff\xff", 5);
    http_response_end(req);
}

static void test_garbled(void)
{
    fake_open(&cmd.fake, NULL);
    cmd.fake.answer = answer_garbage;
    cmd_run(0);
    is_int(cmd.fake.err.code, ERR_INTERNAL, "not JSON: %s", cmd.fake.err.msg);
    cmd.fake.answer = answer_endless_envelope;
    cmd_run(0);
    is_int(cmd.fake.err.code, ERR_INTERNAL, "an envelope of 4 GB: %s", cmd.fake.err.msg);
    fake_close(&cmd.fake);
}

int main(void)
{
    test_ends();
    test_request();
    test_broken();
    test_paused();
    test_garbled();
    cmd_fini();
    return tap_done();
}
