// SPDX-License-Identifier: Apache-2.0
// Trailers, the fields after the last chunk: those that are accepted, and those that are sent.
#include <string.h>

#include "sandbox-backend/base/limits.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/net/http_parser.h"
#include "tests/lib/harness/tap.h"

#define HEAD "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// Parses an answer whose last chunk is followed by `rest`, `step` bytes at a time; its last event.
static enum http_event parse(struct http_parser *p, const char *rest, size_t len, size_t step)
{
    struct buf text auto_buf = BUF_INIT;
    buf_adds(&text, HEAD "3\r\nabc\r\n0\r\n");
    buf_add(&text, rest, len);
    http_parser_init(p, HTTP_RESPONSE);
    enum http_event event = HTTP_EV_MORE;
    const char *at = text.data;
    for (size_t left = text.len; left && event != HTTP_EV_END && event != HTTP_EV_BAD;) {
        size_t n = left < step ? left : step;
        size_t unread = n;
        do
            event = http_parser_step(p, &at, &unread);
        while (event == HTTP_EV_HEAD || event == HTTP_EV_BODY);
        left -= n - unread;
    }
    return event;
}

static void test_received(size_t step)
{
    static const char REST[] = "X-Sum: abc  \r\nEmpty:\r\nx-sum: \t d e\r\nF: b\r\n c\r\n\r\n";
    struct http_parser p;
    is_int(parse(&p, REST, sizeof REST - 1, step), HTTP_EV_END, "%zu bytes at a time", step);
    const struct http_trailers *t = &p.trailers;
    is_int((int)t->count, 4, "four trailers");
    is_str(t->list[0].name, "X-Sum", "a name");
    is_str(t->list[0].value, "abc", "its value, without blanks");
    is_str(t->list[1].value, "", "an empty one");
    is_str(t->list[2].value, "d e", "the same name again");
    is_str(t->list[3].value, "b c", "a folded one is one line");
    is_int((int)p.count, 1, "and the head has what it had");
    http_parser_next(&p);
    is_int((int)t->count, 0, "the next message has none");
    http_parser_fini(&p);
}

static void test_refused(void)
{
    static const struct {
        const char *what, *rest;
        size_t len;
    } CASES[] = {
#define CASE(what, rest) {what, rest, sizeof(rest) - 1}
        CASE("a blank in the name", "A b: c\r\n\r\n"),
        CASE("no name", ": c\r\n\r\n"),
        CASE("no colon", "A\r\n\r\n"),
        CASE("a NUL in the value", "A: b\0c\r\n\r\n"),
        CASE("a NUL in the name", "A\0: b\r\n\r\n"),
        CASE("a control character", "A: b\001\r\n\r\n"),
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct http_parser p;
        is_int(parse(&p, CASES[i].rest, CASES[i].len, 1000), HTTP_EV_BAD, "%s", CASES[i].what);
        http_parser_fini(&p);
    }
}

static void test_bounds(void)
{
    struct http_parser p;
    struct buf rest auto_buf = BUF_INIT;
    for (int i = 0; i <= HTTP_HEADERS_MAX; i++)
        buf_adds(&rest, "A: b\r\n");
    buf_adds(&rest, "\r\n");
    is_int(parse(&p, rest.data, rest.len, 1000), HTTP_EV_BAD, "too many");
    http_parser_fini(&p);
    is_int(parse(&p, rest.data + 6, rest.len - 6, 1000), HTTP_EV_END, "as many as headers");
    http_parser_fini(&p);
    buf_clear(&rest);
    buf_adds(&rest, "A: ");
    for (size_t i = 0; i <= LIMIT_HTTP_HEAD_BYTES; i++)
        buf_addc(&rest, 'x');
    buf_adds(&rest, "\r\n\r\n");
    is_int(parse(&p, rest.data, rest.len, 1000), HTTP_EV_BAD, "too long");
    is_int(p.bad_status, 431, "which is told");
    http_parser_fini(&p);
}

static void test_sent(void)
{
    static const char *const NOT[] = {
        "Content-Length", "content-type", "Transfer-Encoding", "Host",    "Connection",    "TE",
        "Trailer",        "Cookie",       "Set-Cookie",        "Proxy-X", "Authorization", "A b"};
    struct buf out auto_buf = BUF_INIT;
    for (size_t i = 0; i < ARRAY_LEN(NOT); i++) {
        http_trailers_append(&out, NOT[i], "x");
        is_int((int)out.len, 0, "%s is not sent so late", NOT[i]);
    }
    http_trailers_append(&out, "A", "b\r\nSet-Cookie: c");
    is_int((int)out.len, 0, "nor is a second line");
    http_trailers_append(&out, "Grpc-Status", "0");
    http_trailers_append(&out, "B", "");
    is_str(buf_str(&out), "Grpc-Status: 0\r\nB: \r\n", "others are");
}

int main(void)
{
    test_received(1000);
    test_received(1);
    test_refused();
    test_bounds();
    test_sent();
    return tap_done();
}
