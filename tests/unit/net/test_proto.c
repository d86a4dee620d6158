// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers: bytes from other encoders, values that have several encodings, and values that
// no message can hold. The test with the Connect project's client, test_envd_proto.py, is the
// larger one.
#include "sandbox-backend/connect/proto.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/connect/connect.h"
#include "sandbox-backend/connect/services.h"
#include "tests/lib/harness/tap.h"

#define BYTES(text) (text), sizeof(text) - 1

static const struct proto_message *request(const char *path)
{
    return service_method(path)->request;
}

static const struct proto_message *response(const char *path)
{
    return service_method(path)->response;
}

static void is_json(const struct proto_message *m, const char *wire, size_t len, const char *want)
{
    struct err e = ERR_INIT;
    json_t *message = proto_decode(m, wire, len, &e);
    char *text auto_free = message ? json_to_string(message) : xstrdup(e.msg);
    is_str(text, want, "decoded");
    json_decref(message);
}

static void is_wire(const struct proto_message *m, const char *json, const char *want, size_t len)
{
    struct err e = ERR_INIT;
    struct buf out auto_buf = BUF_INIT;
    json_t *message = json_parse(json, strlen(json), &e);
    ok(proto_encode(m, message, &out, &e) == 0, "encoded: %s %s", json, e.msg);
    ok(out.len == len && memcmp(buf_str(&out), want, len) == 0, "as others write it");
    json_decref(message);
}

static void test_both_ways(void)
{
    static const struct {
        const char *path;
        const char *json;
        const char *wire;
        size_t len;
    } CASES[] = {
        {"/process.Process/Start",
         "{\"process\":{\"cmd\":\"a\",\"args\":[\"\",\"b\"],\"envs\":{\"k\":\"v\"},\"cwd\":\"\"},"
         "\"stdin\":false}",
         BYTES("\x0a\x12\x0a\x01"
               "a\x12\x00\x12\x01"
               "b\x1a\x06\x0a\x01k\x12\x01v\x22\x00\x20\x00")},
        {"/process.Process/SendSignal", "{\"process\":{\"pid\":300},\"signal\":\"SIGNAL_SIGKILL\"}",
         BYTES("\x0a\x03\x08\xac\x02\x10\x09")},
        {"/process.Process/SendSignal", "{\"process\":{\"pid\":0},\"signal\":7}",
         BYTES("\x0a\x02\x08\x00\x10\x07")},
        {"/process.Process/SendInput", "{\"input\":{\"stdin\":\"\"}}", BYTES("\x12\x02\x0a\x00")},
        {"/filesystem.Filesystem/WatchDir", "{\"path\":\"/\",\"includeEntry\":true}",
         BYTES("\x0a\x01/\x18\x01")},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        is_json(request(CASES[i].path), CASES[i].wire, CASES[i].len, CASES[i].json);
        is_wire(request(CASES[i].path), CASES[i].json, CASES[i].wire, CASES[i].len);
    }
    is_wire(response("/process.Process/Start"),
            "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,\"status\":\"s\"}}}",
            BYTES("\x0a\x07\x1a\x05\x08\x01\x1a\x01s"));
    is_wire(response("/filesystem.Filesystem/Stat"),
            "{\"entry\":{\"size\":\"-1\",\"modifiedTime\":\"1969-12-31T23:59:59.5Z\"}}",
            BYTES("\x0a\x1e\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x4a\x11\x08\xff\xff\xff\xff"
                  "\xff\xff\xff\xff\xff\x01\x10\x80\xca\xb5\xee\x01"));
}

// Times that a file may have, and that a client therefore sees.
static void test_times(void)
{
    static const char *const TIMES[] = {"0001-01-01T00:00:00Z", "1011-11-14T22:13:20.123456789Z",
                                        "9999-12-31T23:59:59.999999999Z"};
    const struct proto_message *m = response("/filesystem.Filesystem/Stat");
    for (size_t i = 0; i < ARRAY_LEN(TIMES); i++) {
        struct err e = ERR_INIT;
        struct buf wire auto_buf = BUF_INIT;
        json_t *entry = json_pack("{s:{s:s}}", "entry", "modifiedTime", TIMES[i]);
        char *text auto_free = json_to_string(entry);
        ok(proto_encode(m, entry, &wire, &e) == 0, "%s is written", TIMES[i]);
        is_json(m, wire.data, wire.len, text);
        json_decref(entry);
    }
    struct err e = ERR_INIT;
    ok(!proto_decode(m, BYTES("\x0a\x09\x4a\x07\x08\x80\x83\xd1\xff\xaf\x07"), &e),
       "the year 10000");
    is_str(e.msg, "the message has a time outside the years 1 to 9999", "is refused");
}

static void test_merging(void)
{
    const struct proto_message *m = request("/process.Process/SendSignal");
    is_json(m, BYTES("\x10\x09\x0a\x03\x12\x01t\x10\x0f\x0a\x02\x08\x05"),
            "{\"signal\":\"SIGNAL_SIGTERM\",\"process\":{\"pid\":5}}");
    is_json(m, BYTES("\x10\x09\x10\x00"), "{}");
    is_json(m, BYTES("\x12\x01x\x08\x01\x9b\x06\x9c\x06"), "{}");
    is_json(request("/process.Process/Start"), BYTES("\x0a\x05\x1a\x03\x12\x01v\x0a\x02\x1a\x00"),
            "{\"process\":{\"envs\":{\"\":\"\"}}}");
}

static void test_refusing(void)
{
    static const struct {
        const char *wire;
        size_t len;
        const char *why;
    } CASES[] = {
        {BYTES("\x0a\x05x"), "the message ends within a field"},
        {BYTES("\x0a\x03\x12\x01\xff"), "tag must be UTF-8 without NUL"},
        {BYTES("\x0a\x03\x12\x01\0"), "tag must be UTF-8 without NUL"},
        {BYTES("\x00"), "the message has an invalid field key"},
        {BYTES("\x0e"), "the message has an invalid field key"},
        {BYTES("\x0c"), "the message ends a group that it did not begin"},
        {BYTES("\x1b\x24"), "the message ends a group that it did not begin"},
        {BYTES("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"),
         "the message has a number of more than 10 bytes"},
        {BYTES("\x10\x80\x80\x80\x80\x80\x80\x80\x80\x80\x02"),
         "the message has a number of more than 64 bits"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct err e = ERR_INIT;
        ok(!proto_decode(request("/process.Process/SendSignal"), CASES[i].wire, CASES[i].len, &e),
           "refused");
        is_str(e.msg, CASES[i].why, "with the reason");
    }
    struct err e = ERR_INIT;
    struct buf out auto_buf = BUF_INIT;
    json_t *wrong = json_pack("{s:{s:s}}", "process", "pid", "many");
    ok(proto_encode(request("/process.Process/CloseStdin"), wrong, &out, &e) < 0, "a wrong type");
    is_str(e.msg, "process: pid must be a whole number", "is named");
    json_decref(wrong);
}

static void test_pieces(void)
{
    static const char *const PLACE[] = {"event", "data", "stderr", NULL};
    static const size_t LENGTHS[] = {0, 1, 120, 124, 126, 128, 16380, 40000};
    const struct proto_message *m = response("/process.Process/Start");
    for (size_t i = 0; i < ARRAY_LEN(LENGTHS); i++) {
        struct buf data auto_buf = BUF_INIT;
        struct buf wire auto_buf = BUF_INIT;
        struct buf again auto_buf = BUF_INIT;
        struct err e = ERR_INIT;
        memset(buf_room(&data, LENGTHS[i] + 1), 'x', LENGTHS[i]);
        buf_took(&data, LENGTHS[i]);
        proto_put_bytes(m, PLACE, data.data, data.len, &wire);
        json_t *message = proto_decode(m, wire.data, wire.len, &e);
        ok(message && proto_encode(m, message, &again, &e) == 0 && again.len == wire.len &&
               memcmp(again.data, wire.data, wire.len) == 0,
           "%zu bytes in their place", LENGTHS[i]);
        json_decref(message);
    }
    const struct proto_message *list = response("/filesystem.Filesystem/ListDir");
    struct buf items auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    json_t *item = json_pack("{s:s}", "name", "n");
    for (int i = 0; i < 2; i++)
        proto_encode_item(list, "entries", item, &items, &e);
    is_json(list, items.data, items.len, "{\"entries\":[{\"name\":\"n\"},{\"name\":\"n\"}]}");
    json_decref(item);
}

static void test_frames(void)
{
    struct buf out auto_buf = BUF_INIT;
    struct connect_frame f;
    struct err e = ERR_INIT;
    connect_envelope(&out, CONNECT_FLAG_COMPRESSED, NULL, 0);
    buf_adds(&out, "payload");
    connect_envelope_close(&out, 0);
    for (size_t len = 0; len < out.len; len++)
        if (connect_frame_read(out.data, len, 7, &f, &e) != 0)
            ok(false, "%zu bytes are no whole frame", len);
    ok(connect_frame_read(out.data, out.len, 7, &f, &e) == 1, "a whole frame");
    ok(f.flags == CONNECT_FLAG_COMPRESSED && f.len == 7 && memcmp(f.payload, "payload", 7) == 0,
       "with its payload");
    ok(connect_frame_read(out.data, CONNECT_ENVELOPE_HEAD, 6, &f, &e) < 0, "too long");
    is_int(e.code, ERR_TOO_LARGE, "is told by its head");
}

int main(void)
{
    test_both_ways();
    test_times();
    test_merging();
    test_refusing();
    test_pieces();
    test_frames();
    ok(!service_method("/process.Process/Nope"), "no such method");
    return tap_done();
}
