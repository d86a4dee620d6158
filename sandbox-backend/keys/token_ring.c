// SPDX-License-Identifier: Apache-2.0
// The tokens of a file, read again after each change.
#include "sandbox-backend/keys/token_ring.h"

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/log/log.h"

#define LOOK_MS 1000

// Read the file. A malformed file is not read again until it changes. A file that could not be
// read (no descriptor was free) is read again at the next look: the change may revoke a key.
static int load(struct token_ring *r, struct token_list *list, struct err *e)
{
    // Take the stamp first, so that a change during the read is seen at the next look.
    bool exists = file_stamp_get(r->path, &r->stamp);
    *list = (struct token_list){0};
    if ((!exists && r->may_be_missing) || token_file_read(r->path, list, e) == 0)
        return 0;
    if (e->code != ERR_INVALID)
        r->stamp = (struct file_stamp){.size = -1};
    return -1;
}

int token_ring_init(struct token_ring *r, const char *path, bool may_be_missing, struct err *e)
{
    *r = (struct token_ring){
        .path = xstrdup(path), .may_be_missing = may_be_missing, .looked_ms = clock_mono_ms()};
    return load(r, &r->list, e);
}

void token_ring_fini(struct token_ring *r)
{
    token_list_fini(&r->list);
    free(r->path);
    *r = (struct token_ring){0};
}

bool token_ring_refresh(struct token_ring *r, int64_t now_ms, struct token_list *old)
{
    struct file_stamp stamp;
    struct token_list list;
    struct err e = ERR_INIT;
    if (now_ms - r->looked_ms < LOOK_MS)
        return false;
    r->looked_ms = now_ms;
    bool exists = file_stamp_get(r->path, &stamp);
    if (file_stamp_equal(&stamp, &r->stamp))
        return false;
    if (!exists && r->may_be_missing) {
        r->stamp = stamp;
        log_error("tokens.missing", "path=%s kept=%d", r->path, r->list.count);
        return false;
    }
    if (load(r, &list, &e) < 0) {
        log_error("tokens.unreadable", "error=\"%s\" kept=%d", e.msg, r->list.count);
        return false;
    }
    log_info("tokens.read", "count=%d", list.count);
    *old = r->list;
    r->list = list;
    return true;
}

int token_ring_find(const struct token_ring *r, const struct sha256 *digest)
{
    int found = -1;
    for (int i = 0; i < r->list.count;
         i++) // no early exit, so that the time does not tell which token matched
        if (sha256_equal(&r->list.items[i].digest, digest))
            found = i;
    return found;
}
