// SPDX-License-Identifier: Apache-2.0
// Fuzz .dockerignore: the first line of the input is a path, the rest the patterns. A path that is
// left out stays so when a pattern for another name is added.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/build/ignore.h"
#include "tests/fuzz/path_and_rules.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *path auto_free = NULL;
    const char *rules;
    size_t len;
    if (!path_and_rules(data, size, &path, &rules, &len))
        return 0;
    struct buf more auto_buf = BUF_INIT;
    struct err e = ERR_INIT;
    struct ignore *ig = ignore_new(rules, len, &e);
    assert((ig != NULL) == !err_is(&e));
    if (!ig)
        return 0;
    bool out = ignore_matches(ig, path);
    ignore_free(ig);
    buf_add(&more, rules, len);
    buf_adds(&more, "\n!no/such/name/\n");
    ig = ignore_new(buf_str(&more), more.len, &e);
    if (ig && strncmp(path, "no/such", 7) != 0)
        assert(ignore_matches(ig, path) == out && ignore_has_exceptions(ig));
    ignore_free(ig);
    return 0;
}
