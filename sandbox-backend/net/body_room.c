// SPDX-License-Identifier: Apache-2.0
// Room for the bodies that a server collects, shared by the clients that send them.
#include "sandbox-backend/net/body_room.h"

#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct body_share {
    LIST_ENTRY(body_share) link;
    char *name; // owned; NULL: bodies without a name
    size_t used;
};

static struct body_share *share_of(struct body_room *room, const char *name)
{
    struct body_share *share = LIST_FIRST(&room->shares);
    while (share && !str_eq(share->name, name))
        share = LIST_NEXT(share, link);
    return share;
}

static struct body_share *share_new(struct body_room *room, const char *name)
{
    struct body_share *share = xmalloc(sizeof *share);
    *share = (struct body_share){.name = name ? xstrdup(name) : NULL};
    LIST_INSERT_HEAD(&room->shares, share, link);
    return share;
}

static bool has_room(const struct body_room *room, const struct body_share *share, const char *name,
                     size_t bytes)
{
    size_t limit = name ? room->max / 2 : room->max;
    return room->used + bytes <= room->max && (share ? share->used : 0) + bytes <= limit;
}

bool body_claim_take(struct body_claim *claim, struct body_room *room, const char *name,
                     int64_t length, size_t most)
{
    size_t bytes = length < 0 ? most : (size_t)length;
    *claim = (struct body_claim){0};
    if (bytes <= room->small || bytes > most)
        return true;
    struct body_share *share = share_of(room, name);
    if (!has_room(room, share, name, bytes))
        return false;
    *claim = (struct body_claim){
        .room = room, .share = share ? share : share_new(room, name), .bytes = bytes};
    room->used += bytes;
    claim->share->used += bytes;
    return true;
}

void body_claim_give(struct body_claim *claim)
{
    struct body_share *share = claim->share;
    if (!share)
        return;
    claim->room->used -= claim->bytes;
    share->used -= claim->bytes;
    if (share->used == 0) {
        LIST_REMOVE(share, link);
        free(share->name);
        free(share);
    }
    *claim = (struct body_claim){0};
}
