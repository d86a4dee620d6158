// SPDX-License-Identifier: Apache-2.0
// Fuzz a sandbox's listing of a directory. Each entry that is taken lies below the directory, and a
// state of cubby sync that has them all can be read again.
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/copy/listing.h"
#include "sandbox-backend/cli/copy/sync_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_entry(const struct listing *l, size_t i)
{
    const struct entry *entry = &l->entries[i];
    assert(entry->path[0] != '/' && !strstr(entry->path, "//") && listing_find(l, entry->path));
    for (const char *at = entry->path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        assert(*at && strncmp(at, "../", 3) != 0 && strncmp(at, "./", 2) != 0 &&
               strcmp(at, "..") != 0 && strcmp(at, ".") != 0);
    assert(strchr("fdlo", entry->type) && entry->mode <= 07777 && entry->size >= 0 &&
           entry->size <= LISTING_SIZE_MAX);
    assert(entry->nanoseconds >= 0 && entry->nanoseconds < 1000000000);
    assert(!entry->target || entry->type == 'l');
    assert(i == 0 || strcmp(l->entries[i - 1].path, entry->path) <= 0);
}

static void check_state(const struct listing *l)
{
    struct err e = ERR_INIT;
    struct buf text auto_buf = BUF_INIT;
    struct sync_state written = {.key = xstrdup("key")};
    struct sync_state again = {.key = xstrdup("key")};
    for (size_t i = 0; i < l->count; i++)
        sync_state_note(&written, &l->entries[i], &l->entries[i]);
    sync_state_print(&written, &text);
    assert(sync_state_parse(&again, &text, &e) == 0);
    assert(again.host.count == l->count && again.guest.count == l->count);
    for (size_t i = 0; i < l->count; i++)
        assert(!strcmp(l->entries[i].path, again.guest.entries[i].path));
    sync_state_fini(&written);
    sync_state_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = ERR_INIT;
    struct listing l = {0};
    struct buf text auto_buf = BUF_INIT;
    if (size)
        buf_add(&text, data, size);
    int result = listing_parse(&l, &text, NULL, &e);
    assert((result == 0) == !err_is(&e));
    for (size_t i = 0; result == 0 && i < l.count; i++)
        check_entry(&l, i);
    if (result == 0)
        check_state(&l);
    listing_fini(&l);
    return 0;
}
