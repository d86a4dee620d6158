// SPDX-License-Identifier: Apache-2.0
// Fuzz Connect envelopes and error objects. Envelopes give the same result in one piece and in
// many.
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

// The same with frames that are read one at a time, which may be compressed. Fails where the reader
// does, but that a compressed frame is no failure.
static void read_frames(const char *data, size_t size, int rc, enum err_code code,
                        const struct buf *whole)
{
    struct buf out auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    struct connect_frame f = {0};
    size_t at = 0;
    int got;
    bool more = true;
    while (more && (got = connect_frame_read(data + at, size - at, MAX_PAYLOAD, &f, &e)) > 0) {
        if (f.len > MAX_PAYLOAD || f.payload != data + at + CONNECT_ENVELOPE_HEAD)
            abort();
        connect_envelope(&out, f.flags, f.payload, f.len);
        at += CONNECT_ENVELOPE_HEAD + f.len;
        more = !(f.flags & CONNECT_FLAG_END);
        if (f.flags & CONNECT_FLAG_COMPRESSED)
            return;
    }
    if (!more || (got == 0 && rc < 0 && code == ERR_UNIMPLEMENTED))
        return; // bytes after the end, or a compressed head without its payload
    if ((got < 0) != (rc < 0) || (got < 0 && e.code != code) || out.len != whole->len ||
        memcmp(buf_str(&out), buf_str(whole), out.len) != 0)
        abort();
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
    read_frames(bytes, size - 1, rc, e.code, &whole);
    int64_t ms;
    char *text auto_free = xstrndup(bytes, size - 1);
    struct err e3 = ERR_INIT;
    if (connect_timeout_parse(text, &ms, &e3) == 0 && (ms < 0 || ms > 9999999999))
        abort();
    return 0;
}
