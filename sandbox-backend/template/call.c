// SPDX-License-Identifier: Apache-2.0
// Requests to a guest's envd through its vm.net socket, while a template is built.
#include "sandbox-backend/template/call.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/net/http_conn.h"
#include "sandbox-backend/net/unix_stream.h"

#define CONNECT_MS       2000
#define RETRY_MS         50
#define HEALTH_MS        5000
#define PUT_MS           120000
#define FETCH_BYTES      (1 << 20) // that must arrive in each period
#define POST_MS          60000
#define OUTPUT_BYTES_MAX (64 * 1024)
#define STATUS_OK        200
#define STATUS_NO_BODY   204

// One HTTP call. It is freed when no callback can use it any more: a wait that gives up leaves the
// call to the loop.
struct call {
    struct http_conn *conn;
    struct connect_reader reader;
    struct buf *out; // borrowed; NULL once the caller has left or `out` is full
    int file;        // borrowed; the body goes there, or -1: it is a stream of envelopes
    int64_t file_at, file_left;
    bool is_plain;  // the body of the answer is dropped
    bool abandoned; // the caller has left
    bool connected; // the attempt to connect has ended
    bool ended;     // the response has ended
    int status;
    bool started; // a start event arrived, or the response has ended
    bool exited;  // an end event arrived
    int64_t exit_code;
    char text[64]; // the exit status in envd's words: "exit status 1"
    struct err failed;
};

static struct call *call_new(struct buf *out)
{
    struct call *c = xcalloc(1, sizeof(*c));
    c->out = out;
    c->file = -1;
    connect_reader_init(&c->reader, LIMIT_ENVELOPE_BYTES);
    return c;
}

static void call_free(struct call *c)
{
    connect_reader_fini(&c->reader);
    free(c);
}

static void on_closed(struct http_conn *conn, void *ctx)
{
    (void)conn;
    struct call *c = ctx;
    c->conn = NULL;
    if (c->abandoned)
        call_free(c);
}

static void on_connected(uv_stream_t *stream, const struct err *e, void *ctx)
{
    struct call *c = ctx;
    c->connected = true;
    if (stream)
        c->conn = http_conn_new(stream, on_closed, c);
    else
        c->failed = *e;
    if (!c->abandoned)
        return;
    if (c->conn)
        http_conn_close(c->conn);
    else
        call_free(c);
}

static void on_head(int status, const struct http_header *headers, size_t count, void *ctx)
{
    (void)headers;
    (void)count;
    ((struct call *)ctx)->status = status;
}

static void take_output(struct call *c, const json_t *data)
{
    static const char *const STREAMS[] = {"stdout", "stderr"};
    for (size_t i = 0; i < ARRAY_LEN(STREAMS); i++) {
        const json_t *text = json_object_get(data, STREAMS[i]);
        struct buf bytes auto_buf = BUF_INIT;
        if (text && c->out &&
            base64_decode(&bytes, json_string_value(text), json_string_length(text)) &&
            !buf_try_add(c->out, bytes.data, bytes.len, OUTPUT_BYTES_MAX))
            c->out = NULL; // full: drop the rest
    }
}

static int on_envelope(uint8_t flags, const char *payload, size_t len, void *ctx)
{
    struct call *c = ctx;
    json_t *message = json_parse(payload, len, &c->failed);
    if (!message)
        return -1;
    if (flags & CONNECT_FLAG_END)
        connect_error_parse(message, &c->failed);
    const json_t *event = json_object_get(message, "event");
    c->started |= json_object_get(event, "start") != NULL;
    take_output(c, json_object_get(event, "data"));
    const json_t *end = json_object_get(event, "end");
    if (end) {
        const char *status = json_string_value(json_object_get(end, "status"));
        c->exited = true;
        // The JSON form of protocol buffers omits a zero.
        c->exit_code = json_integer_value(json_object_get(end, "exitCode"));
        snprintf(c->text, sizeof(c->text), "%s", status ? status : "no status");
    }
    json_decref(message);
    return 0;
}

static void keep(struct call *c, const char *data, size_t len)
{
    if ((int64_t)len > c->file_left) {
        err_set(&c->failed, ERR_TOO_LARGE, "the guest's file is too large");
        return;
    }
    c->file_left -= (int64_t)len;
    for (ssize_t n = 0; len; data += n, len -= (size_t)n, c->file_at += n) {
        n = pwrite(c->file, data, len, c->file_at);
        if (n <= 0) {
            err_sys(&c->failed, n ? errno : EIO, "write a file of the guest");
            return;
        }
    }
}

static void on_data(const char *data, size_t len, void *ctx)
{
    struct call *c = ctx;
    if (c->status != STATUS_OK || err_is(&c->failed) || c->abandoned || c->is_plain)
        return;
    if (c->file >= 0)
        keep(c, data, len);
    else
        connect_reader_feed(&c->reader, data, len, on_envelope, c, &c->failed);
}

static void on_end(const struct err *e, void *ctx)
{
    struct call *c = ctx;
    c->ended = c->started = true;
    if (e && !err_is(&c->failed))
        c->failed = *e;
}

// End the caller's use of the call: close the connection. The last callback frees the call.
void call_leave(struct call *c)
{
    c->out = NULL;
    c->abandoned = true;
    if (c->conn)
        http_conn_close(c->conn);
    else if (c->connected)
        call_free(c);
}

struct request {
    const char *method;
    const char *target;
    const struct http_header *headers;
    size_t header_count;
    const struct buf *body; // may be NULL
    uint64_t timeout_ms;
};

// Send the request, without waiting for the answer.
static int send_request(struct call *c, struct pump *p, const char *vmnet, const struct request *r,
                        struct err *e)
{
    static const struct http_conn_events EVENTS = {
        .on_head = on_head, .on_data = on_data, .on_end = on_end};
    vmnet_connect(&p->loop, vmnet, ENVD_PORT, CONNECT_MS, on_connected, c);
    if (pump_until(p, &c->connected, 2ULL * CONNECT_MS, "connecting to envd", e) < 0)
        return -1;
    if (!c->conn) {
        err_set(&c->failed, ERR_UNAVAILABLE, "envd closed the connection");
        return err_set(e, c->failed.code, "%s", c->failed.msg);
    }
    http_conn_call(c->conn, r->method, r->target, r->headers, r->header_count,
                   r->body ? (int64_t)r->body->len : 0, &EVENTS, c);
    if (r->body) {
        http_conn_write(c->conn, r->body->data, r->body->len);
        http_conn_finish(c->conn);
    }
    return 0;
}

// Wait for the end of the response. A file may take as long as its bytes arrive.
static int await_end(struct call *c, struct pump *p, const struct request *r, struct err *e)
{
    for (;;) {
        int64_t before = c->file_at;
        struct err why = ERR_INIT;
        if (pump_until(p, &c->ended, r->timeout_ms, r->target, &why) == 0)
            return 0;
        if (why.code != ERR_TIMEOUT || c->file_at - before < FETCH_BYTES)
            return err_set(e, why.code, "%s", why.msg);
    }
}

static int exchange(struct call *c, struct pump *p, const char *vmnet, const struct request *r,
                    struct err *e)
{
    if (send_request(c, p, vmnet, r, e) < 0 || await_end(c, p, r, e) < 0)
        return -1;
    return err_is(&c->failed) ? err_set(e, c->failed.code, "%s", c->failed.msg) : 0;
}

static int check_health(struct pump *p, const char *vmnet, struct err *e)
{
    struct call *c = call_new(NULL);
    struct request r = {.method = "GET", .target = "/health", .timeout_ms = HEALTH_MS};
    int result = exchange(c, p, vmnet, &r, e);
    if (result == 0 && c->status != STATUS_NO_BODY)
        result =
            err_set(e, ERR_UNAVAILABLE, "envd answered /health with HTTP status %d", c->status);
    call_leave(c);
    return result;
}

int call_await_envd(struct pump *p, const char *vmnet, uint64_t timeout_ms, struct err *e)
{
    int64_t until = clock_mono_ms() + (int64_t)timeout_ms;
    for (;;) {
        struct err why = ERR_INIT;
        if (check_health(p, vmnet, &why) == 0)
            return 0;
        if (why.code == ERR_CANCELED || err_is(&p->dead))
            return err_set(e, why.code, "%s", why.msg);
        if (clock_mono_ms() >= until)
            return err_set(e, ERR_TIMEOUT, "envd did not answer within %llu s (%s)",
                           (unsigned long long)timeout_ms / 1000, why.msg);
        if (pump_pause(p, RETRY_MS, e) < 0)
            return -1;
    }
}

static void make_body(struct buf *out, const struct call_command *command)
{
    json_t *args = json_array();
    for (const char *const *arg = command->args; arg && *arg; arg++)
        json_array_append_new(args, json_string(*arg));
    json_t *message =
        json_pack("{s:{s:s,s:o},s:b}", "process", "cmd", command->cmd, "args", args, "stdin", 0);
    connect_envelope_json(out, message);
    json_decref(message);
}

char *call_last_line(const struct buf *out)
{
    const char *text = buf_str(out);
    size_t end = out->len;
    while (end && strchr(" \r\n", text[end - 1]))
        end--;
    size_t start = end;
    while (start && text[start - 1] != '\n')
        start--;
    return xstrndup(text + start, end - start);
}

static int judge(const struct call *c, const struct call_command *command, const struct buf *out,
                 struct err *e)
{
    if (c->status != STATUS_OK || !c->exited)
        return err_set(e, ERR_INTERNAL, "envd answered with HTTP status %d to the start of %s",
                       c->status, command->cmd);
    if (c->exit_code == 0)
        return 0;
    char *line auto_free = call_last_line(out);
    return err_set(e, ERR_INTERNAL, "%s in the guest: %s: %s", command->cmd, c->text, line);
}

// A request to start a command. The body and the header's text are the caller's.
struct start_request {
    struct buf user, body;
    struct http_header headers[3];
    struct request request;
};

static void start_request_init(struct start_request *s, const struct call_command *command)
{
    *s = (struct start_request){
        .headers = {{"Content-Type", CONNECT_STREAM_TYPE}, {"Connect-Protocol-Version", "1"}}};
    size_t count = 2;
    make_body(&s->body, command);
    if (command->user) {
        char *name auto_free = str_printf("%s:", command->user);
        buf_adds(&s->user, "Basic ");
        base64_encode(&s->user, name, strlen(name));
        s->headers[count++] = (struct http_header){"Authorization", buf_str(&s->user)};
    }
    s->request = (struct request){.method = "POST",
                                  .target = "/process.Process/Start",
                                  .headers = s->headers,
                                  .header_count = count,
                                  .body = &s->body,
                                  .timeout_ms = command->timeout_ms};
}

static void start_request_fini(struct start_request *s)
{
    buf_fini(&s->user);
    buf_fini(&s->body);
}

int call_run(struct pump *p, const char *vmnet, const struct call_command *command, struct buf *out,
             struct err *e)
{
    struct start_request s;
    struct call *c = call_new(out);
    start_request_init(&s, command);
    int result = exchange(c, p, vmnet, &s.request, e);
    if (result == 0)
        result = judge(c, command, out, e);
    call_leave(c);
    start_request_fini(&s);
    return result;
}

struct call *call_begin(struct pump *p, const char *vmnet, const struct call_command *command,
                        struct buf *out, struct err *e)
{
    struct start_request s;
    struct call *c = call_new(out);
    start_request_init(&s, command);
    int result = send_request(c, p, vmnet, &s.request, e);
    if (result == 0)
        result = pump_until(p, &c->started, command->timeout_ms, "the start of a command", e);
    if (result == 0 && err_is(&c->failed))
        result = err_set(e, c->failed.code, "%s", c->failed.msg);
    if (result == 0 && c->status != STATUS_OK)
        result = err_set(e, ERR_INTERNAL, "envd answered with HTTP status %d", c->status);
    start_request_fini(&s);
    if (result == 0)
        return c;
    call_leave(c);
    return NULL;
}

bool call_has_ended(const struct call *c, int64_t *code)
{
    *code = c->exited ? c->exit_code : -1;
    return c->ended || c->exited;
}

static int post(struct pump *p, const char *vmnet, const struct request *r, int wanted,
                struct err *e)
{
    struct call *c = call_new(NULL);
    c->is_plain = true;
    int result = exchange(c, p, vmnet, r, e);
    if (result == 0 && c->status != wanted)
        result = err_set(e, ERR_INTERNAL, "envd answered with HTTP status %d to %s", c->status,
                         r->target);
    call_leave(c);
    return result;
}

int call_post(struct pump *p, const char *vmnet, const char *target, json_t *body, struct err *e)
{
    static const struct http_header headers[] = {{"Content-Type", "application/json"}};
    struct buf text auto_buf = BUF_INIT;
    json_to_buf(&text, body);
    json_decref(body);
    const struct request r = {.method = "POST",
                              .target = target,
                              .headers = headers,
                              .header_count = ARRAY_LEN(headers),
                              .body = &text,
                              .timeout_ms = POST_MS};
    return post(p, vmnet, &r, STATUS_NO_BODY, e);
}

int call_put(struct pump *p, const char *vmnet, const char *path, const struct buf *bytes,
             struct err *e)
{
    static const struct http_header headers[] = {{"Content-Type", "application/octet-stream"}};
    char *target auto_free = str_printf("/files?path=%s&username=root", path);
    const struct request r = {.method = "POST",
                              .target = target,
                              .headers = headers,
                              .header_count = ARRAY_LEN(headers),
                              .body = bytes,
                              .timeout_ms = PUT_MS};
    return post(p, vmnet, &r, STATUS_OK, e);
}

int call_fetch(struct pump *p, const char *vmnet, const char *path, int file, int64_t at,
               int64_t max, uint64_t stall_ms, int64_t *bytes, struct err *e)
{
    char *target auto_free = str_printf("/files?path=%s&username=root", path);
    struct request r = {.method = "GET", .target = target, .timeout_ms = stall_ms};
    struct call *c = call_new(NULL);
    c->file = file;
    c->file_at = at;
    c->file_left = max;
    int result = exchange(c, p, vmnet, &r, e);
    if (result == 0 && c->status != STATUS_OK)
        result = err_set(e, ERR_INTERNAL, "envd answered with HTTP status %d to the download of %s",
                         c->status, path);
    *bytes = c->file_at - at;
    call_leave(c);
    return result;
}
