// SPDX-License-Identifier: Apache-2.0
// Fuzz .dockerignore: the first line of the input is a path, the rest the patterns. A path that is
// left out stays so when a pattern for another name is added.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/build/ignore.h"

#define INPUT_MAX 4096 // a match may take the square of the length

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *stop = size ? memchr(text, '\n', size) : NULL;
    if (!stop || size > INPUT_MAX || memchr(text, '\0', (size_t)(stop - text)))
        return 0;
    char *path auto_free = xstrndup(text, (size_t)(stop - text));
    struct buf more auto_buf = BUF_INIT;
    size_t len = size - (size_t)(stop + 1 - text);
    struct err e = ERR_INIT;
    struct ignore *ig = ignore_new(stop + 1, len, &e);
    assert((ig != NULL) == !err_is(&e));
    if (!ig)
        return 0;
    bool out = ignore_matches(ig, path);
    ignore_free(ig);
    buf_add(&more, stop + 1, len);
    buf_adds(&more, "\n!no/such/name/\n");
    ig = ignore_new(buf_str(&more), more.len, &e);
    if (ig && strncmp(path, "no/such", 7) != 0)
        assert(ignore_matches(ig, path) == out && ignore_has_exceptions(ig));
    ignore_free(ig);
    return 0;
}
