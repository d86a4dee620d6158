// SPDX-License-Identifier: Apache-2.0
// Envelopes, errors and time-outs of the Connect protocol.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/connect/connect.h"
#include "tests/lib/harness/tap.h"

static struct buf seen; // "<flags>:<payload>;" of each envelope
static int stop_after;
static struct err own; // what the callback stops with

static int on_envelope(uint8_t flags, const char *payload, size_t len, void *ctx)
{
    (void)ctx;
    buf_printf(&seen, "%d:", flags);
    buf_add(&seen, payload, len);
    buf_addc(&seen, ';');
    return stop_after && --stop_after == 0 ? -1 : 0;
}

static int feed(struct connect_reader *r, const char *data, size_t len, struct err *e)
{
    *e = own;
    return connect_reader_feed(r, data, len, on_envelope, NULL, e);
}

static void test_writing(void)
{
    struct buf out auto_buf = BUF_INIT;
    connect_envelope(&out, 0, "abc", 3);
    ok(out.len == 8 && memcmp(out.data, "\0\0\0\0\3abc", 8) == 0, "an envelope");
    buf_clear(&out);
    connect_envelope_end(&out, NULL);
    ok(out.len == 7 && memcmp(out.data, "\2\0\0\0\2{}", 7) == 0, "the end of a stream");
    buf_clear(&out);
    struct err e = ERR_INIT;
    err_set(&e, ERR_NOT_FOUND, "no \"x\"\xFF");
    connect_envelope_end(&out, &e);
    is_str(out.data + 5,
           "{\"error\":{\"code\":\"not_found\",\"message\":\"no \\\"x\\\"\xEF\xBF\xBD\"}}",
           "with an error, whatever bytes it quotes");
    is_int(out.data[4], (int)out.len - 5, "and its length");
    buf_clear(&out);
    json_t *message = json_pack("{s:i}", "a", 1);
    connect_envelope_json(&out, message);
    ok(out.len == 12 && memcmp(out.data, "\0\0\0\0\7{\"a\":1}", 12) == 0, "a message");
    json_decref(message);
}

static void test_reading(void)
{
    static const char STREAM[] = "\0\0\0\0\3abc\0\0\0\0\0\0\0\0\0\2de\2\0\0\0\2{}";
    size_t len = sizeof STREAM - 1;
    for (size_t i = 0; i <= len; i++) {
        struct connect_reader r;
        struct err e;
        connect_reader_init(&r, 3);
        buf_clear(&seen);
        bool good = feed(&r, STREAM, i, &e) == 0 && feed(&r, STREAM + i, len - i, &e) == 0;
        good = good && r.ended && str_eq(buf_str(&seen), "0:abc;0:;0:de;2:{};");
        if (!good || i == len)
            ok(good, "split at %zu: %s", i, buf_str(&seen));
        connect_reader_fini(&r);
    }
    struct connect_reader r;
    struct err e = ERR_INIT;
    connect_reader_init(&r, 3);
    buf_clear(&seen);
    for (size_t i = 0; i < len; i++)
        feed(&r, STREAM + i, 1, &e);
    is_str(buf_str(&seen), "0:abc;0:;0:de;2:{};", "byte by byte");
    is_int(feed(&r, "x", 1, &e), -1, "bytes after the end");
    is_int(e.code, ERR_INVALID, "are refused: %s", e.msg);
    connect_reader_fini(&r);
}

static void test_refusing(void)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum err_code code;
    } CASES[] = {
        {"\0\0\0\0\4", 5, ERR_TOO_LARGE},         {"\0\0\0\0\4abcd", 9, ERR_TOO_LARGE},
        {"\0\xFF\xFF\xFF\xFF", 5, ERR_TOO_LARGE}, {"\1\0\0\0\1a", 6, ERR_UNIMPLEMENTED},
        {"\4\0\0\0\1a", 6, ERR_INVALID},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        for (size_t piece = 1; piece <= CASES[i].len; piece += CASES[i].len - 1) {
            struct connect_reader r;
            struct err e = ERR_INIT;
            connect_reader_init(&r, 3);
            int rc = 0;
            for (size_t at = 0; rc == 0 && at + piece <= CASES[i].len; at += piece)
                rc = feed(&r, CASES[i].bytes + at, piece, &e);
            ok(rc == -1 && e.code == CASES[i].code, "case %zu in pieces of %zu: %s", i, piece,
               e.msg);
            connect_reader_fini(&r);
        }
    }
}

static void test_stopping(void)
{
    struct connect_reader r;
    struct err e = ERR_INIT;
    connect_reader_init(&r, 100);
    buf_clear(&seen);
    stop_after = 1;
    is_int(feed(&r, "\0\0\0\0\1a\0\0\0\0\1b", 12, &e), -1, "the callback stops");
    is_int(e.code, ERR_CANCELED, "without a reason of its own");
    is_str(buf_str(&seen), "0:a;", "and is not called again");
    stop_after = 1;
    err_set(&own, ERR_LIMIT, "enough");
    is_int(feed(&r, "\0\0\0\0\1a", 6, &e), -1, "or with one");
    is_str(e.msg, "enough", "which is kept");
    own = ERR_INIT;
    stop_after = 0;
    connect_reader_fini(&r);
}

static void check_error(const char *text, int rc, enum err_code code, const char *message)
{
    struct err e = ERR_INIT;
    json_t *object = json_parse(text, strlen(text), &e);
    e = ERR_INIT;
    is_int(connect_error_parse(object, &e), rc, "%s", text);
    is_int(e.code, code, "its code");
    is_str(e.msg, message, "its message");
    json_decref(object);
}

static void test_errors(void)
{
    check_error("{\"code\":\"not_found\",\"message\":\"gone\"}", -1, ERR_NOT_FOUND, "gone");
    check_error("{\"error\":{\"code\":\"canceled\"}}", -1, ERR_CANCELED, "canceled");
    check_error("{\"error\":{}}", -1, ERR_UNKNOWN, "unknown error");
    check_error("{}", 0, ERR_NONE, "");
    check_error("{\"metadata\":{}}", 0, ERR_NONE, "");
    check_error("{\"code\":404,\"message\":\"x\"}", 0, ERR_NONE, "");
    check_error("[1]", 0, ERR_NONE, "");
    check_error("{\"code\":\"weird\",\"message\":\"%s%n\"}", -1, ERR_UNKNOWN, "%s%n");
    struct err e = ERR_INIT;
    err_set(&e, ERR_UNAUTHENTICATED, "who?");
    json_t *object = connect_error_json(&e);
    struct err back = ERR_INIT;
    ok(connect_error_parse(object, &back) == -1 && back.code == e.code && str_eq(back.msg, e.msg),
       "there and back");
    json_decref(object);
}

static void test_timeouts(void)
{
    static const struct {
        const char *text;
        int rc;
        int64_t ms;
    } CASES[] = {{NULL, 0, 0},        {"0", 0, 0},
                 {"60000", 0, 60000}, {"9999999999", 0, 9999999999},
                 {"", -1, 0},         {"12345678901", -1, 0},
                 {"-1", -1, 0},       {"1s", -1, 0},
                 {" 1", -1, 0},       {"1.5", -1, 0},
                 {"+1", -1, 0}};
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct err e = ERR_INIT;
        int64_t ms = 7;
        is_int(connect_timeout_parse(CASES[i].text, &ms, &e), CASES[i].rc, "\"%s\"",
               CASES[i].text ? CASES[i].text : "(absent)");
        if (CASES[i].rc == 0)
            is_int(ms, CASES[i].ms, "its value");
    }
}

int main(void)
{
    test_writing();
    test_reading();
    test_refusing();
    test_stopping();
    test_errors();
    test_timeouts();
    buf_fini(&seen);
    return tap_done();
}
