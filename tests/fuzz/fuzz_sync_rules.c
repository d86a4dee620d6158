// SPDX-License-Identifier: Apache-2.0
// Fuzz .cubbyignore as cubby sync reads it: the first line of the input is a path, the rest the
// rules. A hidden directory hides all in it, and a rule for another name changes nothing.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/copy/listing.h"
#include "sandbox-backend/cli/copy/sync_rules.h"

#define INPUT_MAX 4096 // a match may take the square of the length

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_others(const char *rules, size_t len, const char *path, bool is_hidden)
{
    struct err e = ERR_INIT;
    struct buf more auto_buf = BUF_INIT;
    buf_add(&more, rules, len);
    buf_adds(&more, "\n/no/such/name\n!/nor/this\n");
    struct sync_rules *r = sync_rules_new(buf_str(&more), more.len, &e);
    assert(r);
    if (strncmp(path, "no/", 3) != 0 && strncmp(path, "nor/", 4) != 0)
        assert(sync_rules_hide(r, path) == is_hidden);
    assert(sync_rules_hide(r, "no/such/name/below"));
    sync_rules_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    const char *stop = size ? memchr(text, '\n', size) : NULL;
    if (!stop || size > INPUT_MAX || memchr(text, '\0', (size_t)(stop - text)))
        return 0;
    char *path auto_free = xstrndup(text, (size_t)(stop - text));
    size_t len = size - (size_t)(stop + 1 - text);
    struct err e = ERR_INIT;
    if (!listing_path_is_plain(path))
        return 0;
    struct sync_rules *r = sync_rules_new(stop + 1, len, &e);
    assert((r != NULL) == !err_is(&e));
    if (!r)
        return 0;
    char *below auto_free = str_printf("%s/x", path);
    bool is_hidden = sync_rules_hide(r, path);
    assert(!is_hidden || sync_rules_hide(r, below));
    sync_rules_free(r);
    check_others(stop + 1, len, path, is_hidden);
    return 0;
}
