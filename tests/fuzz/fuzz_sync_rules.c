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
#include "tests/fuzz/path_and_rules.h"

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
    char *path auto_free = NULL;
    const char *rules;
    size_t len;
    if (!path_and_rules(data, size, &path, &rules, &len))
        return 0;
    struct err e = ERR_INIT;
    if (!listing_path_is_plain(path))
        return 0;
    struct sync_rules *r = sync_rules_new(rules, len, &e);
    assert((r != NULL) == !err_is(&e));
    if (!r)
        return 0;
    char *below auto_free = str_printf("%s/x", path);
    bool is_hidden = sync_rules_hide(r, path);
    assert(!is_hidden || sync_rules_hide(r, below));
    sync_rules_free(r);
    check_others(rules, len, path, is_hidden);
    return 0;
}
