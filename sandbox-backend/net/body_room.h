// SPDX-License-Identifier: Apache-2.0
// The memory budget for request bodies that a server collects, shared by name.
//
// A body takes a part of the budget from the arrival of its request's head until it has been
// handled: its declared length, or the longest length that is allowed. Small bodies take no part of
// the budget, so most requests still work when a client has used it up. There are at most as many
// small bodies as connections. Each name may use half of the budget. Requests without a name may
// use all of it.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct body_share;

// Set `max` and `small`, and zero the rest. When all claims have been given back, nothing needs to
// be freed.
struct body_room {
    size_t max;   // bytes of all bodies that are being received or handled
    size_t small; // the largest body that is not counted
    size_t used;
    LIST_HEAD(body_shares, body_share) shares; // of names that hold a part
};

// The room that one body holds. Zeroed: none.
struct body_claim {
    struct body_room *room; // borrowed
    struct body_share *share;
    size_t bytes;
};

// Take a part of the budget for a body. Return false if too little is left. `length` comes from
// http_request_length. `most` is the longest body that the handler collects; a body whose declared
// length is more takes nothing, because it is refused. `name` is copied.
bool body_claim_take(struct body_claim *claim, struct body_room *room, const char *name,
                     int64_t length, size_t most);
void body_claim_give(struct body_claim *claim); // does nothing if the claim is empty
