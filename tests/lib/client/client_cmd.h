// SPDX-License-Identifier: Apache-2.0
// A command that the client library runs at a fake server, for units. It records the events.
#pragma once
#include "tests/lib/client/client_fake.h"

static struct {
    struct fake fake;
    struct buf out, err_out, events_seen;
    struct command_result result;
    char status[128];
    struct client_op *op;
    bool cancel_at_start;
    const char *end_event, *end_payload; // of cmd_answer_stream
} cmd;

#define CMD_START  "POST /process.Process/Start\n"
#define CMD_DETAIL "GET /sandboxes/" FAKE_ID "\n"
#define CMD_KILL   "POST /process.Process/SendSignal\n"
// The proxy's answer for a sandbox that is gone.
#define CMD_EXPIRED \
    "{\"sandboxId\":\"x\",\"message\":\"expired\",\"reason\":\"expired\",\"code\":502}"

static inline void cmd_on_start(int64_t pid, void *ctx)
{
    (void)ctx;
    buf_printf(&cmd.events_seen, "start %d;", (int)pid);
    if (cmd.cancel_at_start)
        client_cancel(cmd.op);
}

static inline void cmd_on_held(void *ctx)
{
    (void)ctx;
    buf_adds(&cmd.events_seen, "held;");
}

static inline void cmd_on_stdout(const char *data, size_t len, void *ctx)
{
    (void)ctx;
    buf_add(&cmd.out, data, len);
}

static inline void cmd_on_stderr(const char *data, size_t len, void *ctx)
{
    (void)ctx;
    buf_add(&cmd.err_out, data, len);
}

static inline void cmd_on_end(const struct command_result *r, const struct err *e, void *ctx)
{
    cmd.result = *r;
    snprintf(cmd.status, sizeof cmd.status, "%s", r->status);
    fake_finish(ctx, e);
}

static inline void cmd_begin(const char *id, const struct command_opts *opts)
{
    static const struct command_events EVENTS = {.on_start = cmd_on_start,
                                                 .on_stdout = cmd_on_stdout,
                                                 .on_stderr = cmd_on_stderr,
                                                 .on_held = cmd_on_held,
                                                 .on_end = cmd_on_end};
    buf_clear(&cmd.out);
    buf_clear(&cmd.err_out);
    buf_clear(&cmd.events_seen);
    cmd.op = client_command(cmd.fake.client, id, opts, &EVENTS, &cmd.fake);
}

static inline void cmd_run(int64_t timeout_ms)
{
    static const char *const ARGS[] = {"-c", "true", NULL};
    const struct command_opts opts = {.cmd = "sh", .args = ARGS, .timeout_ms = timeout_ms};
    cmd_begin(FAKE_ID, &opts);
    fake_run(&cmd.fake);
}

static inline void cmd_saw(const char *want)
{
    char *seen auto_free = fake_seen(&cmd.fake);
    is_str(seen, want, "requests");
}

// ---- the server's side

static inline void cmd_message(struct http_request *req, const char *json)
{
    struct buf text auto_buf = BUF_INIT;
    connect_envelope(&text, 0, json, strlen(json));
    http_response_write(req, text.data, text.len);
}

static inline void cmd_begin_stream(struct http_request *req)
{
    http_response_header(req, "Content-Type", CONNECT_STREAM_TYPE);
    http_response_begin(req, 200, -1);
    cmd_message(req, "{\"event\":{\"start\":{\"pid\":7}}}");
}

static inline void cmd_end_stream(struct http_request *req, const char *payload)
{
    struct buf text auto_buf = BUF_INIT;
    connect_envelope(&text, CONNECT_FLAG_END, payload, strlen(payload));
    http_response_write(req, text.data, text.len);
    http_response_end(req);
}

static inline void cmd_answer_stream(struct fake *fake, struct http_request *req,
                                     const char *target)
{
    (void)fake;
    (void)target;
    cmd_begin_stream(req);
    cmd_message(req, "{\"event\":{\"data\":{\"stdout\":\"aGkA\"}}}"); // "hi\0"
    cmd_message(req, "{\"event\":{\"keepalive\":{}}}");
    cmd_message(req, "{\"event\":{\"data\":{\"stderr\":\"b2g=\"}}}");
    if (cmd.end_event)
        cmd_message(req, cmd.end_event);
    cmd_end_stream(req, cmd.end_payload);
}

static inline void cmd_answer_kill(struct fake *fake, struct http_request *req, const char *target)
{
    if (strstr(target, "SendSignal")) {
        fake_json(req, 200, "{}");
    } else {
        cmd_begin_stream(req);
        fake->held = req; // until its connection is closed
    }
}

static inline void cmd_answer_late_start(struct fake *fake, struct http_request *req,
                                         const char *target)
{
    (void)target;
    if (!fake->held)
        fake->held = req;
    else
        fake_json(req, 200, "{}");
}

// From here on GETs of the sandbox, too, are answered by the test; the first command needed none.
static inline void cmd_know_the_token(void)
{
    cmd.fake.own_get = false;
    cmd.fake.answer = cmd_answer_stream;
    cmd.end_event = "{\"event\":{\"end\":{\"exited\":true}}}";
    cmd.end_payload = "{}";
    cmd_run(0);
    ok(!err_is(&cmd.fake.err), "a first command: %s", cmd.fake.err.msg);
    cmd.fake.own_get = true;
    buf_clear(&cmd.fake.seen);
}

static inline void cmd_fini(void)
{
    buf_fini(&cmd.out);
    buf_fini(&cmd.err_out);
    buf_fini(&cmd.events_seen);
}
