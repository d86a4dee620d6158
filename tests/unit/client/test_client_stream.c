// SPDX-License-Identifier: Apache-2.0
// An answer of lines from a server in the sandbox: how it is split, and the error at its end.
#include <arpa/inet.h>

#include "tests/lib/client/client_fake.h"

#define SANDBOX                                                                     \
    "{\"sandboxID\":\"" FAKE_ID "\",\"templateID\":\"default\",\"clientID\":\"c\"," \
    "\"envdVersion\":\"0.6.4\",\"envdAccessToken\":\"" FAKE_TOKEN "\","             \
    "\"trafficAccessToken\":\"traffic\"}"

static struct fake f;
static struct buf told;
static struct client_op *op;
static int status;
static size_t longest;
static bool cancel_at_line;
static char port[16], traffic[32];

static void on_line(const char *line, size_t len, void *ctx)
{
    (void)ctx;
    is_int((int64_t)strlen(line), (int64_t)len, "the line ends with NUL");
    longest = len > longest ? len : longest;
    if (len < 100)
        buf_printf(&told, "%s;", line);
    if (cancel_at_line)
        client_cancel(op);
}

static void on_end(int code, const struct err *e, void *ctx)
{
    status = code;
    fake_finish(ctx, e);
}

static void begin(void)
{
    static const struct stream_events EVENTS = {.on_line = on_line, .on_end = on_end};
    json_t *body = json_pack("{s:s}", "code", "1+1");
    buf_clear(&told);
    buf_clear(&f.seen);
    longest = 0;
    op = client_stream(f.client, FAKE_ID, 49999, "POST", "/execute?a=b", body, &EVENTS, &f);
    json_decref(body);
}

static void run(void)
{
    begin();
    fake_run(&f);
}

// ---- the server's side
static const char *const *parts;
static bool holds, breaks;
static size_t filler;

static void note(struct http_request *req)
{
    const char *value = http_request_header(req, "E2b-Sandbox-Port");
    snprintf(port, sizeof port, "%s", value ? value : "");
    value = http_request_header(req, "E2B-Traffic-Access-Token");
    snprintf(traffic, sizeof traffic, "%s", value ? value : "");
}

static void answer_lines(struct fake *fake, struct http_request *req, const char *target)
{
    if (strcmp(target, "/sandboxes/" FAKE_ID) == 0) {
        fake_json(req, 200, SANDBOX);
        return;
    }
    note(req);
    http_response_begin(req, 200, -1);
    for (const char *const *at = parts; *at; at++)
        http_response_write(req, *at, strlen(*at));
    char block[4096];
    memset(block, 'x', sizeof block);
    for (size_t left = filler; left; left -= left < sizeof block ? left : sizeof block)
        http_response_write(req, block, left < sizeof block ? left : sizeof block);
    if (holds)
        fake->held = req;
    else if (breaks)
        http_response_abort(req);
    else
        http_response_end(req);
}

static const char *const PARTS[] = {"{\"a\":", "1}\n\n{\"b\":2}\r", "\n{\"c\"", ":3}", NULL};

static void test_lines(void)
{
    fake_open(&f, NULL);
    f.own_get = true;
    f.answer = answer_lines;
    parts = PARTS;
    run();
    ok(!err_is(&f.err), "a whole answer: %s", f.err.msg);
    is_int(status, 200, "its status");
    is_str(buf_str(&told), "{\"a\":1};{\"b\":2}\r;{\"c\":3};", "its lines, however they came");
    is_str(buf_str(&f.body), "{\"code\":\"1+1\"}", "what was sent");
    is_str(buf_str(&f.content_type), "application/json", "as what");
    is_str(port, "49999", "to that port");
    is_str(buf_str(&f.token), FAKE_TOKEN, "with the sandbox's token");
    is_str(traffic, "traffic", "and that of its ports");
    is_int((int64_t)f.user.len, 0, "nobody is named");
    static const char *const NONE[] = {NULL};
    parts = NONE;
    filler = CLIENT_LINE_BYTES_MAX;
    run();
    ok(!err_is(&f.err), "the longest line: %s", f.err.msg);
    is_int((int64_t)longest, CLIENT_LINE_BYTES_MAX, "is told");
    filler++;
    run();
    is_int(f.err.code, ERR_TOO_LARGE, "a longer one: %s", f.err.msg);
    is_int((int64_t)longest, 0, "is not");
    filler = 0;
    fake_close(&f);
}

// ---- refused, broken
static int refusal_status;
static const char *refusal, *health;

static void answer_refusal(struct fake *fake, struct http_request *req, const char *target)
{
    if (strcmp(target, "/health") == 0)
        fake_json(req, health ? 200 : 502,
                  health ? health : "{\"reason\":\"x\",\"message\":\"it ended\"}");
    else if (refusal && strstr(target, "/execute"))
        http_respond(req, refusal_status, "text/plain", refusal, strlen(refusal));
    else
        answer_lines(fake, req, target);
}

static void test_ends(void)
{
    fake_open(&f, NULL);
    f.own_get = true;
    f.answer = answer_refusal;
    parts = PARTS;
    refusal_status = 404;
    refusal = "Context x not found";
    run();
    is_int(status, 404, "refused");
    is_int(f.err.code, ERR_NOT_FOUND, "for a reason: %s", f.err.msg);
    ok(strstr(f.err.msg, "Context x not found"), "that is told");
    refusal = "<html><body>no</body></html>";
    run();
    ok(!strstr(f.err.msg, "html"), "a page is not shown: %s", f.err.msg);
    refusal_status = 502;
    refusal = "{\"sandboxId\":\"x\",\"message\":\"The sandbox is running but port is not open\","
              "\"port\":49999,\"code\":502}";
    run();
    is_int(f.err.code, ERR_REFUSED, "nobody listens, which is told apart: %s", f.err.msg);
    refusal = NULL;
    breaks = true;
    health = "{}";
    run();
    is_int(f.err.code, ERR_UNAVAILABLE, "broken off: %s", f.err.msg);
    is_str(buf_str(&told), "{\"a\":1};{\"b\":2}\r;", "half a line is not told");
    char *seen auto_free = fake_seen(&f);
    const char *first = strstr(seen, "POST /execute");
    ok(first && !strstr(first + 1, "POST /execute"), "and not sent again: %s", seen);
    health = NULL;
    run();
    is_int(f.err.code, ERR_GONE, "broken off, because the sandbox ended: %s", f.err.msg);
    breaks = false;
    fake_close(&f);
}

// ---- nobody listens: at a port of the sandbox, or where the backend should be
#define CUBE_ID "0123456789abcdef0123456789abcdef"

// A port that is taken, and at which every connection is refused.
static int refusing_port(int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ok(bind(*fd, (const struct sockaddr *)&at, len) == 0, "a port is taken");
    getsockname(*fd, (struct sockaddr *)&at, &len);
    return ntohs(at.sin_port);
}

static void answer_lookup(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    if (str_starts(target, "/cube/"))
        fake_json(req, 200,
                  "{\"ret\":{\"ret_code\":200},\"data\":[{\"sandbox_ip\":\"127.0.0.1\"}]}");
    else
        fake_json(req, 200, strstr(target, FAKE_ID) ? SANDBOX : "{}");
}

static void on_other_closed(void *ctx)
{
    *(bool *)ctx = true;
}

static void run_other(const struct client_opts *opts, const char *id, int to)
{
    static const struct stream_events EVENTS = {.on_line = on_line, .on_end = on_end};
    bool closed = false;
    struct client *other = client_new(&f.loop, opts);
    client_stream(other, id, to, "POST", "/execute", NULL, &EVENTS, &f);
    fake_run(&f);
    client_close(other, on_other_closed, &closed);
    while (!closed)
        uv_run(&f.loop, UV_RUN_ONCE);
    is_int(status, 0, "without an answer");
}

static void test_refused(void)
{
    int fd auto_close = -1;
    int closed_port = refusing_port(&fd);
    fake_open(&f, "tcp");
    f.own_get = true;
    f.answer = answer_lookup;
    char *there auto_free = str_printf("http://127.0.0.1:%d", http_server_port(f.server));
    char *away auto_free = str_printf("http://127.0.0.1:%d", closed_port);
    run_other(&(struct client_opts){.api_url = away}, FAKE_ID, 49999);
    is_int(f.err.code, ERR_UNAVAILABLE, "a backend not known yet is no port of a sandbox");
    run_other(&(struct client_opts){.api_url = away, .dialect = "cubbyd"}, FAKE_ID, 49999);
    is_int(f.err.code, ERR_UNAVAILABLE, "nor is a control plane");
    run_other(&(struct client_opts){.api_url = there, .dialect = "e2b", .sandbox_url = away},
              FAKE_ID, 49999);
    is_int(f.err.code, ERR_UNAVAILABLE, "nor a gateway");
    run_other(&(struct client_opts){.api_url = there, .dialect = "cube", .cube_master = away},
              CUBE_ID, closed_port);
    is_int(f.err.code, ERR_UNAVAILABLE, "nor CubeMaster");
    run_other(&(struct client_opts){.api_url = there, .dialect = "cube", .cube_master = there},
              CUBE_ID, closed_port);
    is_int(f.err.code, ERR_REFUSED, "but a port at the sandbox's own address is");
    fake_close(&f);
}

// ---- canceling
static void test_cancel(void)
{
    fake_open(&f, NULL);
    f.answer = answer_lines;
    parts = PARTS;
    begin();
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "before it was sent");
    is_str(buf_str(&f.seen), "", "nothing is sent");
    holds = true;
    begin();
    while (!strstr(buf_str(&told), "b"))
        uv_run(&f.loop, UV_RUN_ONCE);
    client_cancel(op);
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "during the answer");
    cancel_at_line = true;
    run();
    is_int(f.err.code, ERR_CANCELED, "from a line");
    is_str(buf_str(&told), "{\"a\":1};", "after which nothing is told");
    cancel_at_line = holds = false;
    fake_close(&f);
}

int main(void)
{
    test_lines();
    test_ends();
    test_refused();
    test_cancel();
    buf_fini(&told);
    return tap_done();
}
