// SPDX-License-Identifier: Apache-2.0
// Fuzz the state file of cubby sync. What is read and written again reads the same.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/copy/sync_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void compare(const struct listing *a, const struct listing *b)
{
    assert(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct entry *one = &a->entries[i], *other = &b->entries[i];
        assert(!strcmp(one->path, other->path));
        bool is_unique = (i == 0 || strcmp(one->path, a->entries[i - 1].path) != 0) &&
                         (i + 1 == a->count || strcmp(one->path, a->entries[i + 1].path) != 0);
        assert(!is_unique || !sync_state_differs(one, other)); // equal paths have no order
    }
}

static void check(struct sync_state *s)
{
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    struct sync_state again = {.key = xstrdup(s->key)};
    struct sync_state writes = {.key = s->key, .new_host = s->host, .new_guest = s->guest};
    sync_state_print(&writes, &text);
    assert(sync_state_parse(&again, &text, &e) == 0);
    compare(&s->host, &again.host);
    compare(&s->guest, &again.guest);
    sync_state_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    struct sync_state s = {.key = xstrdup("key")};
    buf_adds(&text, "key\n");
    if (size)
        buf_add(&text, data, size);
    if (sync_state_parse(&s, &text, &e) == 0)
        check(&s);
    else
        assert(err_is(&e));
    sync_state_fini(&s);
    return 0;
}
