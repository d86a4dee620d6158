// SPDX-License-Identifier: Apache-2.0
// Requests of the client library to the control plane, and its unary calls of envd.
#include "tests/lib/client/client_fake.h"

static struct fake f;
static json_t *info;

static void on_json(const json_t *got, const struct err *e, void *ctx)
{
    json_decref(info);
    info = got ? json_deep_copy(got) : NULL;
    ok(!got == !!e, "an answer or an error");
    fake_finish(ctx, e);
}

static void on_done(const struct err *e, void *ctx)
{
    fake_finish(ctx, e);
}

static void saw(const char *want)
{
    char *seen auto_free = fake_seen(&f);
    is_str(seen, want, "requests");
}

// ---- create
static void answer_create(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    if (strcmp(target, "/v2/sandboxes") == 0)
        fake_json(req, 201, FAKE_SANDBOX);
    else
        fake_json(req, 200, "{\"entry\":{\"name\":\"x\"}}");
}

static void test_create(void)
{
    fake_open(&f, NULL);
    f.answer = answer_create;
    json_t *envs = json_pack("{s:s}", "A", "b");
    const struct sandbox_opts opts = {.timeout_s = 60, .envs = envs, .no_internet = true};
    client_create(f.client, &opts, on_json, &f);
    json_decref(envs);
    fake_run(&f);
    ok(!err_is(&f.err), "created: %s", f.err.msg);
    is_str(json_string_value(json_object_get(info, "sandboxID")), FAKE_ID, "id");
    json_t *sent = json_loadb(f.body.data, f.body.len, 0, NULL);
    is_str(json_string_value(json_object_get(sent, "templateID")), "default", "template");
    is_int(json_integer_value(json_object_get(sent, "timeout")), 60, "timeout");
    ok(json_is_false(json_object_get(sent, "allow_internet_access")), "no internet");
    is_str(json_string_value(json_object_get(json_object_get(sent, "envVars"), "A")), "b", "envs");
    json_decref(sent);
    saw("POST /v2/sandboxes\n");

    json_t *request = json_pack("{s:s}", "path", "/x");
    client_rpc(f.client, FAKE_ID, "filesystem.Filesystem/Stat", request, "root", on_json, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "rpc: %s", f.err.msg);
    is_str(buf_str(&f.token), FAKE_TOKEN, "with the token that create answered");
    is_str(buf_str(&f.user), "Basic cm9vdDo=", "as root");
    is_str(buf_str(&f.content_type), "application/json", "type");
    saw("POST /filesystem.Filesystem/Stat\n");
    json_decref(request);
    fake_close(&f);
}

// ---- the token of a sandbox that somebody else made is asked for once
static void answer_ok(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    fake_json(req, 200, "{}");
}

static void test_token(void)
{
    fake_open(&f, NULL);
    f.answer = answer_ok;
    json_t *request = json_object();
    for (int i = 0; i < 2; i++) {
        client_rpc(f.client, FAKE_ID, "process.Process/List", request, NULL, on_json, &f);
        fake_run(&f);
        ok(!err_is(&f.err), "rpc: %s", f.err.msg);
    }
    is_str(buf_str(&f.token), FAKE_TOKEN, "token");
    is_int((int64_t)f.user.len, 0, "no user is named");
    saw("GET /sandboxes/" FAKE_ID "\nPOST /process.Process/List\nPOST /process.Process/List\n");
    json_decref(request);
    fake_close(&f);
}

// ---- lists
static void answer_list(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    fake_json(req, 200, "[" FAKE_SANDBOX "]");
}

static void test_list(void)
{
    fake_open(&f, NULL);
    f.answer = answer_list;
    client_list(f.client, NULL, on_json, &f);
    fake_run(&f);
    is_int((int64_t)json_array_size(info), 1, "listed: %s", f.err.msg);
    saw("GET /v2/sandboxes\n");
    json_t *metadata = json_pack("{s:s, s:s}", "a b", "c&d", "owner", "x=%");
    client_list(f.client, metadata, on_json, &f);
    json_decref(metadata);
    fake_run(&f);
    saw("GET /v2/sandboxes?metadata=a%252520b%3Dc%252526d%26owner%3Dx%25253D%252525\n");
    metadata = json_object();
    client_list(f.client, metadata, on_json, &f);
    json_decref(metadata);
    fake_run(&f);
    saw("GET /v2/sandboxes\n");
    fake_close(&f);
}

// ---- errors
static void answer_errors(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    if (strstr(target, "/timeout"))
        fake_json(req, 404,
                  "{\"code\":404,\"message\":\"killed at noon\",\"error_code\":\"sandbox_ended\"}");
    else if (strcmp(target, "/v2/sandboxes") == 0)
        fake_json(req, 200, "not JSON");
    else
        http_respond(req, 204, NULL, NULL, 0);
}

static void test_errors(void)
{
    fake_open(&f, NULL);
    f.answer = answer_errors;
    client_set_timeout(f.client, FAKE_ID, 5, on_done, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_GONE, "ended");
    is_str(f.err.msg, "killed at noon", "why");
    client_list(f.client, NULL, on_json, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "nonsense: %s", f.err.msg);
    client_kill(f.client, FAKE_ID, on_done, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "killed");
    saw("POST /sandboxes/" FAKE_ID "/timeout\nGET /v2/sandboxes\nDELETE /sandboxes/" FAKE_ID "\n");
    static const char *const MALFORMED[] = {"", "x", "../../etc", "ABCDEFGHIJ0123456789",
                                            FAKE_ID "abcdefghij01"};
    for (size_t i = 0; i < ARRAY_LEN(MALFORMED); i++) {
        client_get(f.client, MALFORMED[i], on_json, &f);
        fake_run(&f);
        is_int(f.err.code, ERR_INVALID, "malformed: %s", f.err.msg);
    }
    json_t *request = json_object();
    client_rpc(f.client, FAKE_ID, "a.B/C", request, "a:b", on_json, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_INVALID, "a user with a colon: %s", f.err.msg);
    json_decref(request);
    saw("");
    fake_close(&f);
}

static void answer_much(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    (void)target;
    size_t len = 9 << 20;
    char *much auto_free = xmalloc(len);
    memset(much, ' ', len);
    http_respond(req, 200, "application/json", much, len);
}

static void test_too_large(void)
{
    fake_open(&f, NULL);
    f.answer = answer_much;
    client_list(f.client, NULL, on_json, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_TOO_LARGE, "an endless answer: %s", f.err.msg);
    fake_close(&f);
}

static void test_no_daemon(void)
{
    fake_open(&f, NULL);
    const struct client_opts opts = {.home = "/nonexistent"};
    struct client *lonely = client_new(&f.loop, &opts);
    client_list(lonely, NULL, on_json, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_UNAVAILABLE, "no daemon: %s", f.err.msg);
    int closed = f.closed;
    client_close(lonely, fake_on_closed, &f);
    while (f.closed == closed)
        uv_run(&f.loop, UV_RUN_ONCE);
    f.closed = closed;
    fake_close(&f);
}

// ---- canceling
static void hold(struct fake *fake, struct http_request *req, const char *target)
{
    if (strcmp(target, "/sandboxes/" FAKE_ID) == 0)
        http_respond(req, 204, NULL, NULL, 0);
    else
        fake->held = req;
}

static void test_cancel(void)
{
    fake_open(&f, NULL);
    f.answer = hold;
    const struct sandbox_opts opts = {.timeout_s = 1};
    struct client_op *op = client_create(f.client, &opts, on_json, &f);
    client_cancel(op);
    client_cancel(op);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "canceled before it was sent");
    saw("");

    op = client_create(f.client, &opts, on_json, &f);
    while (!f.held)
        uv_run(&f.loop, UV_RUN_ONCE);
    client_cancel(op);
    ok(!f.done, "a create that the server works at is waited for");
    fake_json(f.held, 201, FAKE_SANDBOX);
    fake_run(&f);
    is_int(f.err.code, ERR_CANCELED, "and then canceled");
    saw("POST /v2/sandboxes\nDELETE /sandboxes/" FAKE_ID "\n");

    client_list(f.client, NULL, on_json, &f);
    client_close(f.client, fake_on_closed, &f);
    while (f.closed < 1)
        uv_run(&f.loop, UV_RUN_ONCE);
    ok(f.done, "closing completes what is in progress");
    is_int(f.err.code, ERR_CANCELED, "with an error of its own");
    const struct client_opts again = {.home = f.home};
    f.client = client_new(&f.loop, &again);
    f.closed = 0;
    fake_close(&f);
}

// ---- E2B: an older control plane without /v2, and a sandbox whose envd has no default user
static void answer_old(struct fake *fake, struct http_request *req, const char *target)
{
    (void)fake;
    if (str_starts(target, "/v2/"))
        fake_json(req, 405, "{\"code\":405,\"message\":\"no\"}");
    else if (strcmp(target, "/sandboxes") == 0)
        fake_json(req, 201, "{\"sandboxID\":\"i-1\",\"envdVersion\":\"0.2.0\"}");
    else
        fake_json(req, 200, "{}");
}

static void test_e2b(void)
{
    fake_open(&f, "tcp");
    f.answer = answer_old;
    const struct sandbox_opts opts = {.timeout_s = 1};
    client_create(f.client, &opts, on_json, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "created by the older route: %s", f.err.msg);
    is_str(buf_str(&f.key), "e2b_0123", "with the key");
    json_t *request = json_object();
    client_rpc(f.client, "i-1", "process.Process/List", request, NULL, on_json, &f);
    json_decref(request);
    fake_run(&f);
    ok(!err_is(&f.err), "envd: %s", f.err.msg);
    is_str(buf_str(&f.user), "Basic dXNlcjo=", "an old envd is told the user");
    saw("GET /health\nPOST /v2/sandboxes\nPOST /sandboxes\nPOST /process.Process/List\n");
    fake_close(&f);
}

int main(void)
{
    test_create();
    test_token();
    test_list();
    test_errors();
    test_too_large();
    test_no_daemon();
    test_cancel();
    test_e2b();
    json_decref(info);
    return tap_done();
}
