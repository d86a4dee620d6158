// SPDX-License-Identifier: Apache-2.0
// Room for the bodies that a server collects, shared by those who send them.
//
// A body is counted from its head until it was handled, with the length that it declares, or the
// most that it may have. What is small is not counted: there are not more of these than
// connections, and who takes all of the room does not lock others out of most calls. One name has
// half of the room at most; who has no name may have all.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct body_share;

// Zeroed but for `max` and `small`; nothing is left to free once all claims were given back.
struct body_room {
    size_t max;   // of all bodies on their way
    size_t small; // the largest that is not counted
    size_t used;
    LIST_HEAD(body_shares, body_share) shares; // of those who hold something
};

// Room that one body has. Zeroed: none.
struct body_claim {
    struct body_room *room; // borrowed
    struct body_share *share;
    size_t bytes;
};

// False: there is no room. `length` as http_request_length has it, `most` what the taker would
// collect: a longer body is refused by its length, and needs no room. `name` is copied.
bool body_claim_take(struct body_claim *claim, struct body_room *room, const char *name,
                     int64_t length, size_t most);
void body_claim_give(struct body_claim *claim); // also when it has none
