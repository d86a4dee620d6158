// SPDX-License-Identifier: Apache-2.0
// Connect envelopes: taken apart in one piece and in many, the result is the same; and error
// objects of any shape.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/connect/connect.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_PAYLOAD 200

static int on_envelope(uint8_t flags, const char *payload, size_t len, void *ctx)
{
    struct buf *out = ctx;
    if (len > MAX_PAYLOAD)
        abort();
    connect_envelope(out, flags, payload, len);
    struct err e = ERR_INIT;
    json_t *object = json_parse(payload, len, &e);
    struct err told = ERR_INIT;
    if (object && connect_error_parse(object, &told) != (err_is(&told) ? -1 : 0))
        abort();
    json_decref(object);
    return 0;
}

// What came out, as envelopes again; returns what the last feed did.
static int take_apart(const char *data, size_t size, size_t piece, struct buf *out, struct err *e)
{
    struct connect_reader r;
    connect_reader_init(&r, MAX_PAYLOAD);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < size; at += piece)
        rc = connect_reader_feed(&r, data + at, size - at < piece ? size - at : piece, on_envelope,
                                 out, e);
    connect_reader_fini(&r);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t piece = data[0] ? data[0] : 1;
    const char *bytes = (const char *)data + 1;
    struct buf whole auto_buf = BUF_INIT;
    struct buf pieces auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    struct err e2 = ERR_INIT;
    int rc = take_apart(bytes, size - 1, size, &whole, &e);
    int rc2 = take_apart(bytes, size - 1, piece, &pieces, &e2);
    if (rc != rc2 || e.code != e2.code || whole.len != pieces.len ||
        memcmp(buf_str(&whole), buf_str(&pieces), whole.len) != 0)
        abort();
    if (rc == 0 && memcmp(buf_str(&whole), bytes, whole.len) != 0)
        abort();
    int64_t ms;
    char *text auto_free = xstrndup(bytes, size - 1);
    struct err e3 = ERR_INIT;
    if (connect_timeout_parse(text, &ms, &e3) == 0 && (ms < 0 || ms > 9999999999))
        abort();
    return 0;
}
