// SPDX-License-Identifier: Apache-2.0
// Fuzz the scan of a request's body that arrives in pieces. A placeholder is found wherever the
// pieces end, and neither it nor a byte after it is sent on. Other bytes are held back no longer
// than needed.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/egress/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LONGEST 12

static const char *const TEXTS[] = {"abcabcabd", "abcabcabcabe", "bcabcabd"};

static void require(bool promise)
{
    if (!promise)
        abort();
}

// Where the first one begins; `len` when there is none.
static size_t first_of(const char *text, size_t len)
{
    size_t first = len;
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        const char *at = len ? memmem(text, len, TEXTS[i], strlen(TEXTS[i])) : NULL;
        if (at && (size_t)(at - text) < first)
            first = (size_t)(at - text);
    }
    return first;
}

static void check(const struct buf *in, const struct buf *out, int found, bool last)
{
    size_t first = first_of(in->data, in->len);
    require(out->len <= first && (out->len == 0 || memcmp(in->data, out->data, out->len) == 0));
    require(found < (int)ARRAY_LEN(TEXTS));
    if (found >= 0) {
        size_t len = strlen(TEXTS[found]);
        require(out->len == first && in->len - first >= len &&
                memcmp(in->data + first, TEXTS[found], len) == 0);
    } else {
        // A longer one may still come of what one is found in.
        require(in->len - out->len < LONGEST && (!last || out->len == in->len));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct scan s;
    struct buf in = BUF_INIT, out = BUF_INIT;
    int found = -1;
    scan_init(&s);
    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++)
        scan_add(&s, TEXTS[i]);
    for (size_t i = 0; i < size && found < 0;) {
        size_t len = data[i++];
        len = len < size - i ? len : size - i;
        buf_add(&in, data + i, len);
        found = scan_feed(&s, (const char *)data + i, len, false, &out);
        check(&in, &out, found, false);
        i += len;
    }
    if (found < 0)
        check(&in, &out, scan_feed(&s, NULL, 0, true, &out), true);
    scan_fini(&s);
    buf_fini(&in);
    buf_fini(&out);
    return 0;
}
