// SPDX-License-Identifier: Apache-2.0
// A watched directory: the stream, and the error at its end.
#include "tests/lib/client/client_fake.h"

static struct fake f;
static struct buf told;
static struct client_op *op;
static bool cancel_at_event;

static void on_start(void *ctx)
{
    (void)ctx;
    buf_adds(&told, "start;");
}

static void on_event(enum watch_kind kind, const char *name, void *ctx)
{
    static const char LETTERS[] = {
        [WATCH_CREATE] = 'c', [WATCH_WRITE] = 'w', [WATCH_REMOVE] = 'r',
        [WATCH_RENAME] = 'm', [WATCH_CHMOD] = 'p',
    };
    (void)ctx;
    buf_printf(&told, "%c %s;", LETTERS[kind], name);
    if (cancel_at_event)
        client_cancel(op);
}

static void on_end(const struct err *e, void *ctx)
{
    ok(e != NULL, "a watch ends with a reason");
    fake_finish(ctx, e);
}

static void begin(const char *path)
{
    static const struct watch_events EVENTS = {on_start, on_event, on_end};
    buf_clear(&told);
    op = client_watch(f.client, FAKE_ID, path, true, "root", &EVENTS, &f);
}

static void run(void)
{
    begin("/x");
    fake_run(&f);
}

// ---- the server's side
static const char *end_payload; // NULL: the stream breaks
static const char *first_message;
static bool holds;

static void message(struct http_request *req, uint8_t flags, const char *json)
{
    struct buf text auto_buf = BUF_INIT;
    connect_envelope(&text, flags, json, strlen(json));
    http_response_write(req, text.data, text.len);
}

static void answer_watch(struct fake *fake, struct http_request *req, const char *target)
{
    (void)target;
    http_response_header(req, "Content-Type", CONNECT_STREAM_TYPE);
    http_response_begin(req, 200, -1);
    message(req, 0, first_message);
    message(req, 0, "{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_CREATE\"}}");
    message(req, 0, "{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_WRITE\"}}");
    message(req, 0, "{\"keepalive\":{}}");
    message(req, 0, "{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_CHMOD\"}}");
    message(req, 0, "{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_LATER\"}}");
    message(req, 0, "{\"filesystem\":{\"name\":\"a\",\"type\":\"EVENT_TYPE_RENAME\"}}");
    message(req, 0, "{\"filesystem\":{\"name\":\"d/b\",\"type\":\"EVENT_TYPE_REMOVE\"}}");
    if (holds) {
        fake->held = req;
        return;
    }
    if (end_payload) {
        message(req, CONNECT_FLAG_END, end_payload);
        http_response_end(req);
    } else {
        http_response_abort(req);
    }
}

static void test_events(void)
{
    fake_open(&f, NULL);
    f.answer = answer_watch;
    first_message = "{\"start\":{}}";
    end_payload = "{\"error\":{\"code\":\"resource_exhausted\",\"message\":\"events were lost\"}}";
    run();
    is_str(buf_str(&told), "start;c a;w a;p a;m a;r d/b;", "what was told");
    is_int(f.err.code, ERR_LIMIT, "why it ended: %s", f.err.msg);
    is_str(f.body.data + CONNECT_ENVELOPE_HEAD, "{\"path\":\"/x\",\"recursive\":true}",
           "the request");
    is_str(buf_str(&f.user), "Basic cm9vdDo=", "by whom");
    is_int((int64_t)f.timeout.len, 0, "no time limit");
    is_str(buf_str(&f.seen), "GET /sandboxes/" FAKE_ID "\nPOST /filesystem.Filesystem/WatchDir\n",
           "requests");
    end_payload = "{}";
    run();
    is_int(f.err.code, ERR_UNAVAILABLE, "an end that says nothing: %s", f.err.msg);
    first_message = "{\"start\":{";
    run();
    is_int(f.err.code, ERR_INTERNAL, "nonsense: %s", f.err.msg);
    first_message = "{\"filesystem\":{\"name\":7}}";
    run();
    is_int(f.err.code, ERR_INTERNAL, "a name that is none: %s", f.err.msg);
    first_message = "{\"start\":{}}";
    buf_clear(&f.seen);
    begin("\xff");
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "a path that is not UTF-8: %s", f.err.msg);
    is_str(buf_str(&f.seen), "", "is not asked for");
    fake_close(&f);
}

// ---- refused, broken
static const char *health, *listed;
static int health_status, listed_status;

static void answer_break(struct fake *fake, struct http_request *req, const char *target)
{
    if (strcmp(target, "/health") == 0)
        fake_json(req, health_status, health);
    else if (strcmp(target, "/sandboxes/" FAKE_ID) == 0)
        fake_json(req, listed_status, listed);
    else
        answer_watch(fake, req, target);
}

static void answer_refusal(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    fake_json(req, 502,
              "{\"sandboxId\":\"x\",\"message\":\"expired\",\"reason\":\"expired\",\"code\":502}");
}

static void test_ends(void)
{
    fake_open(&f, NULL);
    f.answer = answer_watch;
    end_payload = "{\"error\":{\"code\":\"not_found\",\"message\":\"path not found: /x\"}}";
    run();
    is_int(f.err.code, ERR_NOT_FOUND, "no such directory: %s", f.err.msg);
    f.own_get = true;
    f.answer = answer_break;
    end_payload = NULL;
    health_status = 200;
    health = listed = "{}";
    run();
    is_int(f.err.code, ERR_UNAVAILABLE, "broken, and the sandbox lives: %s", f.err.msg);
    health_status = 502;
    listed_status = 404;
    listed = "{\"code\":404,\"message\":\"it expired\",\"error_code\":\"sandbox_ended\"}";
    run();
    is_int(f.err.code, ERR_GONE, "broken, and it does not");
    is_str(f.err.msg, "it expired", "why");
    f.answer = answer_refusal;
    run();
    is_int(f.err.code, ERR_GONE, "refused by the proxy: %s", f.err.msg);
    fake_close(&f);
}

// ---- canceling
static void test_cancel(void)
{
    fake_open(&f, NULL);
    f.answer = answer_watch;
    begin("/x");
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "before it was sent");
    is_str(buf_str(&f.seen), "", "nothing is sent");
    holds = true;
    begin("/x");
    while (!strstr(buf_str(&told), "d/b"))
        uv_run(&f.loop, UV_RUN_ONCE);
    client_cancel(op);
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "while it watches");
    cancel_at_event = true;
    run();
    is_int(f.err.code, ERR_CANCELED, "from an event");
    is_str(buf_str(&told), "start;c a;", "after which nothing is told");
    holds = false;
    run();
    is_int(f.err.code, ERR_CANCELED, "also when the stream broke at once");
    cancel_at_event = false;
    holds = true;
    begin("/x");
    while (!told.len)
        uv_run(&f.loop, UV_RUN_ONCE);
    client_close(f.client, fake_on_closed, &f);
    while (!f.closed)
        uv_run(&f.loop, UV_RUN_ONCE);
    is_int(f.err.code, ERR_CANCELED, "closing the client cancels");
    f.done = false;
    f.closed = 0;
    const struct client_opts again = {.home = f.home};
    f.client = client_new(&f.loop, &again);
    fake_close(&f);
}

int main(void)
{
    test_events();
    test_ends();
    test_cancel();
    buf_fini(&told);
    return tap_done();
}
