// SPDX-License-Identifier: Apache-2.0
// Fuzz the answers of an upstream proxy, whole and byte by byte: both give the same result, and
// what follows a reply is not touched. The first byte says whether there is a login.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct run {
    struct buf in, out;
    const char *why;
    enum socks_step step;
};

static void run(struct run *r, bool login, const uint8_t *data, size_t size, size_t piece)
{
    char name[] = "user", password[] = "password", host[] = "proxy";
    const struct proxy proxy = {.host = host,
                                .port = 1080,
                                .username = login ? name : NULL,
                                .password = login ? password : NULL};
    struct socks s;
    *r = (struct run){.in = BUF_INIT, .out = BUF_INIT, .step = SOCKS_MORE};
    socks_begin(&s, &proxy, "192.0.2.1", 443, &r->out);
    for (size_t at = 0; at < size; at += piece) {
        size_t len = size - at < piece ? size - at : piece;
        buf_add(&r->in, (const char *)data + at, len);
        if (r->step == SOCKS_MORE)
            r->step = socks_take(&s, &r->in, &r->out, &r->why);
    }
}

static void require(bool promise)
{
    if (!promise)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run whole, pieces;
    if (!size)
        return 0;
    run(&whole, data[0] & 1, data + 1, size - 1, size);
    run(&pieces, data[0] & 1, data + 1, size - 1, 1);
    require(whole.step == pieces.step && whole.why == pieces.why);
    require(whole.out.len == pieces.out.len &&
            memcmp(whole.out.data, pieces.out.data, whole.out.len) == 0);
    if (whole.step == SOCKS_CONNECTED)
        require(whole.in.len == pieces.in.len && whole.in.len < size &&
                (!whole.in.len ||
                 memcmp(whole.in.data, data + size - whole.in.len, whole.in.len) == 0));
    require((whole.step == SOCKS_REFUSED) == (whole.why != NULL));
    buf_fini(&whole.in);
    buf_fini(&whole.out);
    buf_fini(&pieces.in);
    buf_fini(&pieces.out);
    return 0;
}
