// SPDX-License-Identifier: Apache-2.0
// An outward connection at the gate: libslirp has one end of a socket pair in place of the real
// socket. The gate copies bytes between the pair and the real socket. It stops when it gives the
// real socket back to libslirp, or when the connection ends.
//
//     libslirp  fd <== socket pair ==> guest   [bytes]   real  <== TCP ==>  the server
//
// The gate passes the server's bytes on at once. The guest's bytes wait in `bytes`; the first
// `clear` of them may be sent to the server. Nothing is lost or reordered. Ends and resets follow
// the bytes before them. If one side takes no bytes, the gate reads none from the other.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/netd/gate/hello.h"
#include "sandbox-backend/netd/gate/http_head.h"
#include "sandbox-backend/netd/wire/pollset.h"

enum gated_state {
    GATED_HELLO,   // the guest's first bytes are not judged yet
    GATED_FORWARD, // allowed: the real socket goes back when no byte is left to copy
    GATED_WATCH,   // HTTP: every request is judged, so the connection stays
    GATED_OPEN,    // the real socket is back; only the name is kept
    GATED_HANDED,  // cubby-egress has the guest's end
    GATED_STATES
};

struct gated {
    enum gated_state state;
    int fd;                      // libslirp's descriptor, borrowed; -1 after libslirp has closed it
    int guest, real;             // owned; -1 from OPEN and HANDED on
    int guest_index, real_index; // in the pollset; -1: not waited for
    struct endpoint to;
    struct server_name name; // the name under which it was allowed; "" for none
    uint8_t *bytes;          // owned, HELLO_MAX bytes of the guest; NULL before the first
    size_t len, clear;
    struct http_watch watch;
    bool has_server_spoken;
    bool is_guest_full, is_real_full; // takes no more bytes at present
    bool is_guest_done, is_real_done; // has sent its end
    bool is_end_told;                 // the server has been sent the guest's end
    bool is_broken;                   // the server has reset the connection
    bool is_refused;                  // refused and closed; to be removed
    bool has_begun;                   // the guest has sent a first byte
    int64_t deadline;                 // for bytes that the guest must send; 0: none
    int64_t rest_until;               // deadline after libslirp has closed its end; 0 before
};

// Replace the connected socket `fd` by one end of a socket pair. Return NULL, with nothing changed,
// when descriptors are short.
struct gated *gated_new(int fd, const struct endpoint *to);
void gated_free(struct gated *c);  // close what it owns: the server sees an end
void gated_reset(struct gated *c); // close the real socket now: the server sees a reset

void gated_set_state(struct gated *c, enum gated_state to);

// Copy the server's next bytes to the guest, as many as fit in one step.
void gated_to_guest(struct gated *c);
// Read the guest's next bytes, as many as `bytes` has room for.
void gated_from_guest(struct gated *c);
// Send the `clear` bytes to the server. After the guest's last byte, also send the guest's end.
void gated_to_server(struct gated *c);

// Return whether the server has reset the connection and libslirp has read what came before.
bool gated_is_over(const struct gated *c);
// Return whether libslirp has closed its end and all its remaining bytes have been sent.
bool gated_is_done(const struct gated *c);

// Put the real socket back if no byte is left to copy in either direction.
bool gated_put_back(struct gated *c);

// Replace libslirp's descriptor by one end of a new socket pair, and close the real socket. Return
// the other end, from which all bytes of the guest so far can be read. Return -1 when the server
// has sent bytes or descriptors are short.
int gated_take_guest(struct gated *c);

void gated_fill(struct gated *c, struct pollset *set);
bool gated_has_event(const struct gated *c, const struct pollset *set);
