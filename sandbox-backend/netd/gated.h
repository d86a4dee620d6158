// SPDX-License-Identifier: Apache-2.0
// One outward connection on its way through the gate: libslirp's end of a socket pair in the place
// of the real socket, and a copy between the two until the real one goes back, or for good.
//
//     libslirp  fd <== socket pair ==> guest   [bytes]   real  <== TCP ==>  the server
//
// What the server sends goes on at any time. What the guest sends stays in `bytes` until the first
// `clear` of them may go. Nothing is lost or put in another order, ends and resets are passed on
// after what was sent before them, and a side that takes nothing holds up the other.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/netd/hello.h"
#include "sandbox-backend/netd/http_watch.h"
#include "sandbox-backend/netd/pollset.h"

enum gated_state {
    GATED_HELLO,  // what the guest says is not judged yet
    GATED_RELAY,  // allowed: the real socket goes back as soon as nothing is under way
    GATED_WATCH,  // HTTP: every request is judged, so it stays
    GATED_OPEN,   // the real socket is back; only the name is kept
    GATED_HANDED, // another process has the guest's end
    GATED_STATES
};

struct gated {
    enum gated_state state;
    int fd;          // libslirp's, borrowed; -1 once it has closed it
    int guest, real; // owned; -1 from OPEN and HANDED on
    int guest_place, real_place;
    struct endpoint to;
    struct server_name name; // under which it was allowed; "" for none
    uint8_t *bytes;          // owned, HELLO_MAX, of the guest; NULL while there were none
    size_t len, clear;
    struct http_watch watch;
    bool has_server_spoken;
    bool is_guest_full, is_real_full; // takes nothing more at present
    bool is_guest_done, is_real_done; // has sent its end
    bool is_end_told;                 // the server knows of the guest's end
    bool is_broken;                   // the server has reset it
    bool is_refused;                  // and closed: to be forgotten
    bool has_begun;                   // to say what it is
    int64_t deadline;                 // of what the guest has to say; 0 for none
    int64_t rest_until;               // once libslirp is gone; 0 before
};

// Puts a socket pair in the place of the connected socket `fd`. NULL, and nothing has changed, when
// descriptors are short.
struct gated *gated_new(int fd, const struct endpoint *to);
void gated_free(struct gated *c);  // closes what it owns: the server sees an end
void gated_reset(struct gated *c); // closes the real socket now: the server sees a reset

void gated_set_state(struct gated *c, enum gated_state to);

// Copies to the guest as much as goes in one go.
void gated_to_guest(struct gated *c);
// Reads from the guest what there is room for.
void gated_from_guest(struct gated *c);
// Sends the bytes that are clear, and the guest's end behind the last of all.
void gated_to_server(struct gated *c);

// The server has reset the connection, and libslirp has read what came before.
bool gated_is_over(const struct gated *c);
// libslirp is gone, and so is all that it left.
bool gated_is_done(const struct gated *c);

// Puts the real socket back, if nothing is under way in either direction.
bool gated_put_back(struct gated *c);

// Puts what the guest has said so far into a socket of its own, from which nothing was read yet,
// and libslirp's descriptor at its other end. -1 when the server has spoken, or for want of
// descriptors.
int gated_take_guest(struct gated *c);

void gated_fill(struct gated *c, struct pollset *set);
bool gated_has_event(const struct gated *c, const struct pollset *set);
