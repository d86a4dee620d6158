// SPDX-License-Identifier: Apache-2.0
// Fuzz Protocol Buffers. A decoded message stays the same when it is encoded and decoded again. A
// client's JSON, once in its normal form, stays the same through the binary form if that can
// represent it.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/connect/services.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct proto_message *choose(uint8_t which)
{
    static const char *const METHODS[] = {
        "/process.Process/Start",         "/process.Process/List",
        "/process.Process/Update",        "/process.Process/SendInput",
        "/process.Process/StreamInput",   "/process.Process/SendSignal",
        "/filesystem.Filesystem/ListDir", "/filesystem.Filesystem/WatchDir",
        "/filesystem.Filesystem/Move",    "/filesystem.Filesystem/GetWatcherEvents",
    };
    const struct service_method *m = service_method(METHODS[which / 2 % ARRAY_LEN(METHODS)]);
    return which % 2 ? m->response : m->request;
}

// Both forms of a message that is in the one form already.
static void round_trip(const struct proto_message *m, const json_t *message)
{
    struct buf once auto_buf = BUF_INIT;
    struct buf twice auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    if (proto_encode(m, message, &once, &e) < 0)
        abort();
    json_t *again = proto_decode(m, once.data, once.len, &e);
    if (!again || !json_equal(message, again))
        abort();
    if (proto_encode(m, again, &twice, &e) < 0 || once.len != twice.len ||
        memcmp(buf_str(&once), buf_str(&twice), once.len) != 0)
        abort();
    json_t *normal = json_deep_copy(again);
    if (proto_normalize(m, normal, &e) < 0 || !json_equal(normal, again))
        abort();
    json_decref(normal);
    json_decref(again);
}

static void try_binary(const struct proto_message *m, const char *bytes, size_t len)
{
    struct err e = ERR_INIT;
    json_t *message = proto_decode(m, bytes, len, &e);
    if (!message != err_is(&e))
        abort();
    if (message)
        round_trip(m, message);
    json_decref(message);
}

static void try_json(const struct proto_message *m, const char *text, size_t len)
{
    struct err e = ERR_INIT;
    struct buf binary auto_buf = BUF_INIT;
    json_t *message = json_parse(text, len, &e);
    if (message && proto_normalize(m, message, &e) == 0 &&
        proto_encode(m, message, &binary, &e) == 0) {
        json_t *decoded = proto_decode(m, binary.data, binary.len, &e);
        if (!decoded)
            abort(); // we made it ourselves
        round_trip(m, decoded);
        json_decref(decoded);
    }
    json_decref(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const struct proto_message *m = choose(data[0]);
    const char *rest = (const char *)data + 1;
    try_binary(m, rest, size - 1);
    try_json(m, rest, size - 1);
    return 0;
}
