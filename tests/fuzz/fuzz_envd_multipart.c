// SPDX-License-Identifier: Apache-2.0
// Fuzz multipart bodies: the same parts come out however the bytes are split, and no access is out
// of bounds. The first byte chooses the size of the pieces.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/envd/files/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_part(const char *name, const char *filename, void *ctx)
{
    buf_printf(ctx, "[%s|%s]", name ? name : "", filename ? filename : "");
    return 0;
}

static int on_data(const char *data, size_t len, void *ctx)
{
    buf_add(ctx, data, len);
    return 0;
}

static int on_part_end(void *ctx)
{
    buf_addc(ctx, ';');
    return 0;
}

static int run(const char *data, size_t len, size_t piece, struct buf *out)
{
    static const struct multipart_events EVENTS = {on_part, on_data, on_part_end};
    struct multipart m;
    struct err e = ERR_INIT;
    int rc = multipart_init(&m, "multipart/form-data; boundary=XY", &EVENTS, out, &e);
    for (size_t i = 0; rc == 0 && i < len; i += piece)
        rc = multipart_feed(&m, data + i, len - i < piece ? len - i : piece, &e);
    if (rc == 0)
        rc = multipart_finish(&m, &e);
    multipart_fini(&m);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *body = (const char *)data + 1;
    struct buf whole auto_buf = BUF_INIT;
    struct buf pieces auto_buf = BUF_INIT;
    int a = run(body, size - 1, size, &whole);
    int b = run(body, size - 1, (size_t)data[0] % 7 + 1, &pieces);
    if (a != b || whole.len != pieces.len ||
        (whole.len && memcmp(whole.data, pieces.data, whole.len) != 0))
        abort();
    struct multipart m;
    struct err e = ERR_INIT;
    struct buf type auto_buf = BUF_INIT; // the same bytes as a Content-Type
    buf_add(&type, body, size - 1);
    static const struct multipart_events EVENTS = {on_part, on_data, on_part_end};
    if (multipart_init(&m, buf_str(&type), &EVENTS, &whole, &e) == 0)
        multipart_fini(&m);
    return 0;
}
