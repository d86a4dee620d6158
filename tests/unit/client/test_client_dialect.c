// SPDX-License-Identifier: Apache-2.0
// The dialects: the targets of requests, the features that a server lacks, and their replacements.
#include "sandbox-backend/client/dialect.h"
#include "tests/lib/client/client_fake.h"

#define CUBE_ID  "0123456789abcdef0123456789abcdef"
#define CUBE     "{\"sandboxID\":\"" CUBE_ID "\",\"envdVersion\":\"0.2.0\",\"domain\":\"cube.app\"}"
#define CUBE_OK  "{\"status\":\"ok\",\"sandboxes\":0}"
#define CUBBY_OK "{\"status\":\"ok\",\"server\":\"cubbyd\"}"

static struct fake f;
static json_t *info;
static int status;
static const char *health, *create, *lookup, *envd_health;
static int lookup_status, early;
static int pages, health_status;
static int cube_version; // its second number

static void on_json(const json_t *got, const struct err *e, void *ctx)
{
    json_decref(info);
    info = got ? json_deep_copy(got) : NULL;
    fake_finish(ctx, e);
}

static void on_done(const struct err *e, void *ctx)
{
    fake_finish(ctx, e);
}

static void on_file(const char *where, int64_t bytes, const struct err *e, void *ctx)
{
    (void)where;
    is_int(bytes, 3, "bytes");
    fake_finish(ctx, e);
}

static void on_command_end(const struct command_result *r, const struct err *e, void *ctx)
{
    (void)r;
    fake_finish(ctx, e);
}

static void on_output(const char *data, size_t len, void *ctx)
{
    (void)data;
    (void)len;
    (void)ctx;
}

static void answer_page(struct http_request *req)
{
    http_response_header(req, "Content-Type", "application/json");
    if (pages-- > 1)
        http_response_header(req, "X-Next-Token", "a+b");
    http_response_begin(req, 200, -1);
    static const char PAGE[] = "[{\"sandboxID\":\"x\",\"metadata\":{\"k\":\"v\"}},{}]";
    http_response_write(req, PAGE, sizeof PAGE - 1);
    http_response_end(req);
}

// /health is the server's before the create, and envd's afterwards.
static void answer(struct fake *fake, struct http_request *req, const char *target)
{
    const char *method = http_request_method(req);
    bool is_envd = strstr(buf_str(&fake->seen), "POST /");
    if (strcmp(target, "/health") == 0 && is_envd && early-- > 0)
        http_respond(req, 502, "text/html", "<html>", 6);
    else if (strcmp(target, "/health") == 0)
        fake_json(req, 200, is_envd ? envd_health : health);
    else if (strcmp(method, "DELETE") == 0)
        http_respond(req, 204, NULL, NULL, 0);
    else if (str_starts(target, "/sandboxes/") && strcmp(method, "GET") == 0)
        fake_json(req, lookup_status, lookup);
    else if (strstr(target, "sandboxes") && strcmp(method, "POST") == 0 &&
             !strstr(target, "timeout"))
        fake_json(req, 201, create);
    else if (strstr(target, "sandboxes") && strcmp(method, "GET") == 0)
        answer_page(req);
    else if (str_starts(target, "/snapshots"))
        fake_json(req, cube_version >= 3 ? 200 : 404, "[]");
    else if (str_eq(target, "/volumes"))
        fake_json(req, cube_version >= 6 ? 200 : 404, "[]");
    else if (str_starts(target, "/files"))
        fake_json(req, 200, "[{\"path\":\"/a\"}]");
    else
        fake_json(req, status ? status : 200, "{}");
}

static void open_fake(const char *says)
{
    fake_open(&f, "tcp");
    f.own_get = true;
    f.answer = answer;
    health = says;
    envd_health = "{}";
    status = early = 0;
}

static void saw(const char *want)
{
    char *seen auto_free = fake_seen(&f);
    is_str(seen, want, "requests");
}

static void make(bool sliding, json_t *envs)
{
    const struct sandbox_opts opts = {.timeout_s = 60, .sliding = sliding, .envs = envs};
    client_create(f.client, &opts, on_json, &f);
    fake_run(&f);
}

static void test_cubbyd(void)
{
    open_fake(CUBBY_OK);
    create = FAKE_SANDBOX;
    ok(!client_slides(f.client), "nothing is known of it yet");
    make(true, NULL);
    ok(!err_is(&f.err), "created: %s", f.err.msg);
    ok(client_slides(f.client), "it is cubbyd");
    ok(strstr(buf_str(&f.body), "\"sliding\":true"), "which takes sliding: %s", buf_str(&f.body));
    client_set_timeout(f.client, FAKE_ID, 5, on_done, &f);
    fake_run(&f);
    saw("GET /health\nPOST /v2/sandboxes\nPOST /sandboxes/" FAKE_ID "/timeout\n");
    is_str(buf_str(&f.key), "e2b_0123", "the key");
    fake_close(&f);
}

// A refusal that any gateway may give once does not settle for good what serves behind it.
static void answer_after_refusal(struct fake *fake, struct http_request *req, const char *target)
{
    if (health_status && strcmp(target, "/health") == 0)
        fake_json(req, health_status, "{\"code\":429,\"message\":\"slow down\"}");
    else
        answer(fake, req, target);
}

static void test_refused_first(void)
{
    static const struct {
        int status;
        enum err_code code;
    } FIRST[] = {{429, ERR_LIMIT}, {401, ERR_UNAUTHENTICATED}, {302, ERR_UNAVAILABLE}};
    for (size_t i = 0; i < ARRAY_LEN(FIRST); i++) {
        open_fake(CUBE_OK);
        f.answer = answer_after_refusal;
        create = CUBE;
        health_status = FIRST[i].status;
        make(false, NULL);
        is_int(f.err.code, FIRST[i].code, "not known: %s", f.err.msg);
        saw("GET /health\n");
        health_status = 0;
        make(false, NULL);
        ok(!err_is(&f.err), "asked again: %s", f.err.msg);
        saw("GET /health\nGET /snapshots?limit=1\nPOST /sandboxes\nGET /health\n");
        fake_close(&f);
    }
}

// A server that does not filter may send pages without a match before one with a match.
static void answer_late_match(struct fake *fake, struct http_request *req, const char *target)
{
    if (!str_starts(target, "/sandboxes")) {
        answer(fake, req, target);
        return;
    }
    pages--;
    http_response_header(req, "Content-Type", "application/json");
    if (pages > 0)
        http_response_header(req, "X-Next-Token", "t");
    http_response_begin(req, 200, -1);
    const char *page = pages == 1 ? "[{\"sandboxID\":\"x\",\"metadata\":{\"k\":\"v\"}}]" : "[{}]";
    http_response_write(req, page, strlen(page));
    http_response_end(req);
}

static void test_pages_without_a_match(void)
{
    open_fake(CUBE_OK);
    f.answer = answer_late_match;
    pages = 4;
    json_t *metadata = json_pack("{s:s}", "k", "v");
    client_list(f.client, metadata, on_json, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "listed: %s", f.err.msg);
    is_int((int64_t)json_array_size(info), 1, "the match of the third page");
    is_int(pages, 0, "all pages were asked for");
    json_decref(metadata);
    fake_close(&f);
}

static void test_e2b_pages(void)
{
    open_fake("fine");
    pages = 3;
    json_t *metadata = json_pack("{s:s}", "k", "v");
    client_list(f.client, metadata, on_json, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "listed: %s", f.err.msg);
    is_int((int64_t)json_array_size(info), 6, "what all pages have");
    saw("GET /health\nGET /v2/sandboxes?metadata=k%3Dv\n"
        "GET /v2/sandboxes?metadata=k%3Dv&nextToken=a%2Bb\n"
        "GET /v2/sandboxes?metadata=k%3Dv&nextToken=a%2Bb\n");
    json_decref(metadata);
    fake_close(&f);
}

static void test_cube_create(void)
{
    open_fake(CUBE_OK);
    create = CUBE;
    early = 2;
    make(true, NULL);
    ok(!err_is(&f.err), "created: %s", f.err.msg);
    saw("GET /health\nGET /snapshots?limit=1\nPOST /sandboxes\nGET /health\nGET /sandboxes/" CUBE_ID
        "\nGET /health\nGET /sandboxes/" CUBE_ID "\nGET /health\n");
    ok(!client_slides(f.client), "it does not slide");
    json_t *envs = json_pack("{s:s}", "A", "b");
    make(false, envs);
    json_decref(envs);
    is_int(f.err.code, ERR_UNIMPLEMENTED, "an environment: %s", f.err.msg);
    saw("");
    client_set_timeout(f.client, CUBE_ID, 3600, on_done, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "its end is moved");
    saw("");
    client_set_timeout(f.client, CUBE_ID, 0, on_done, &f);
    fake_run(&f);
    while (!strstr(buf_str(&f.seen), "DELETE"))
        uv_run(&f.loop, UV_RUN_ONCE);
    // CubeAPI calls the end of an unknown sandbox a success, so the client asks first.
    saw("GET /sandboxes/" CUBE_ID "\nDELETE /sandboxes/" CUBE_ID "\n");
    pages = 1;
    json_t *metadata = json_pack("{s:s}", "k", "v");
    client_list(f.client, metadata, on_json, &f);
    fake_run(&f);
    is_int((int64_t)json_array_size(info), 1, "its list is filtered here");
    saw("GET /sandboxes\n");
    json_decref(metadata);
    fake_close(&f);
}

// The version is asked for once, before the first request that depends on it.
static void test_cube_later(void)
{
    open_fake(CUBE_OK);
    create = CUBE;
    cube_version = 6;
    json_t *envs = json_pack("{s:s}", "A", "b");
    make(false, envs);
    json_decref(envs);
    ok(!err_is(&f.err), "created: %s", f.err.msg);
    saw("GET /health\nGET /snapshots?limit=1\nGET /volumes\nPOST /sandboxes\nGET /health\n");
    client_set_timeout(f.client, CUBE_ID, 5, on_done, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "its end is moved");
    saw("POST /sandboxes/" CUBE_ID "/timeout\n");
    cube_version = 0;
    fake_close(&f);
}

static void test_cube_envd(void)
{
    open_fake(CUBE_OK);
    create = CUBE;
    make(false, NULL);
    saw("GET /health\nGET /snapshots?limit=1\nPOST /sandboxes\nGET /health\n");
    client_upload_bytes(f.client, CUBE_ID, "abc", 3, "a\"b", NULL, on_file, &f);
    fake_run(&f);
    ok(!err_is(&f.err), "uploaded: %s", f.err.msg);
    saw("POST /files?path=a%22b&username=root\n");
    is_str(buf_str(&f.user), "Basic cm9vdDo=", "root is named");
    ok(str_starts(buf_str(&f.content_type), "multipart/form-data; boundary="), "a form");
    ok(strstr(buf_str(&f.body), "name=\"file\"; filename=\"a%22b\"\r\n"), "%s", buf_str(&f.body));
    ok(strstr(buf_str(&f.body), "\r\n\r\nabc\r\n--"), "with the file in it");
    static const struct command_events EVENTS = {
        .on_stdout = on_output, .on_stderr = on_output, .on_end = on_command_end};
    static const char *const ARGS[] = {"-c", "x", NULL};
    const struct command_opts opts = {.cmd = "/bin/bash", .args = ARGS};
    client_command(f.client, CUBE_ID, &opts, &EVENTS, &f);
    fake_run(&f);
    static const char CLOSED[] =
        "{\"process\":{\"args\":[\"-c\",\"exec \\\"$0\\\" \\\"$@\\\" "
        "</dev/null\",\"/bin/bash\",\"-c\",\"x\"],\"cmd\":\"/bin/sh\"},\"tag\":\"cubby-";
    ok(str_starts(f.body.data + CONNECT_ENVELOPE_HEAD, CLOSED),
       "stdin is closed for a command, which has a tag: %s", f.body.data + CONNECT_ENVELOPE_HEAD);
    char *seen auto_free = fake_seen(&f);
    lookup_status = 404;
    lookup = "{\"code\":404,\"message\":\"not found\"}";
    json_t *none = json_object();
    status = 500;
    client_rpc(f.client, CUBE_ID, "process.Process/List", none, NULL, on_json, &f);
    fake_run(&f);
    is_int(f.err.code, ERR_UNKNOWN, "a reason that envd gives is the reason: %s", f.err.msg);
    saw("POST /process.Process/List\n");
    json_decref(none);
    fake_close(&f);
}

static void test_options(void)
{
    static const struct {
        struct client_opts opts;
        const char *says;
    } BAD[] = {
        {{.api_url = "sandboxes.example"}, "the backend must be a URL"},
        {{.api_url = "ftp://x"}, "the backend must be a URL"},
        {{.api_url = "https://"}, "the backend must be a URL"},
        {{.api_url = "https://user@x"}, "the backend must be a URL"},
        {{.sandbox_url = "x"}, "the URL of the sandboxes"},
        {{.proxy_url = "10.0.0.1:80"}, "the proxy of the sandboxes"},
        {{.cube_master = "10.0.0.1:80"}, "CubeMaster"},
        {{.dialect = "e3b"}, "use cubbyd, e2b or cube"},
        {{.ca_file = "/nonexistent"}, "/nonexistent"},
        {{.user = "a:b"}, "not a valid user name"},
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct err e = ERR_INIT;
        ok(client_opts_check(&BAD[i].opts, &e) < 0 && strstr(e.msg, BAD[i].says), "%s", e.msg);
    }
    struct err e = ERR_INIT;
    const struct client_opts fine = {.api_url = "https://x:1/y", .dialect = "cube", .user = "root"};
    ok(client_opts_check(&fine, &e) == 0, "these are fine: %s", e.msg);
}

// An error names each feature that a server lacks.
static void test_what_they_lack(void)
{
    static const struct dialect *const ALL[] = {&dialect_cubbyd, &dialect_e2b, &dialect_cube,
                                                &dialect_cube_03, &dialect_cube_06};
    for (size_t i = 0; i < ARRAY_LEN(ALL); i++)
        for (int feature = FEATURE_NONE + 1; feature < FEATURES; feature++) {
            struct err lacks = ERR_INIT, old = ERR_INIT;
            dialect_check(ALL[i], (enum feature)feature, &lacks);
            dialect_too_old(ALL[i], (enum feature)feature, 404, &old);
            ok(!strstr(lacks.msg, "null") && !strstr(old.msg, "null") &&
                   strstr(old.msg, " has no "),
               "%s; %s", lacks.msg, old.msg);
        }
    struct err e = ERR_INIT;
    ok(dialect_check(&dialect_cubbyd, FEATURE_PORTS, &e) == 0 &&
           dialect_check(&dialect_e2b, FEATURE_PORTS, &e) < 0 && strstr(e.msg, "ports on the host"),
       "%s", e.msg);
}

int main(void)
{
    test_options();
    test_what_they_lack();
    test_cubbyd();
    test_e2b_pages();
    test_pages_without_a_match();
    lookup = "{}";
    lookup_status = 200;
    test_cube_create();
    test_cube_later();
    test_refused_first();
    test_cube_envd();
    json_decref(info);
    return tap_done();
}
