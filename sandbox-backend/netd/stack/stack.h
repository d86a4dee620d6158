// SPDX-License-Identifier: Apache-2.0
// libslirp as an object: the TCP/IP stack between the guest's frames and host sockets.
//
// libslirp opens every descriptor itself and reports it (register_poll_fd). That makes an exact
// count of the guest's connections possible. It also lets us replace a descriptor that libslirp has
// just accepted (stack_dial) or connected (the gate).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_policy.h"
#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/netd/wire/pollset.h"
#include "sandbox-backend/netd/wire/wire.h"

#define STACK_TCP_OUT_MAX NET_CONNECTIONS_MAX // TCP connections of the guest to the outside
#define STACK_UDP_OUT_MAX NET_CONNECTIONS_MAX // source ports; libslirp keeps each for 4 minutes

struct stack;

struct stack_events {
    void *ctx;
    void (*on_frame)(void *ctx, const uint8_t *frame, size_t len); // for the guest
    // libslirp is about to close a dialled descriptor, or one of an outward connection.
    void (*on_closed)(void *ctx, int fd);
    // An outward connection is established, and libslirp has not noticed yet: its descriptor may be
    // replaced now.
    void (*on_connected)(void *ctx, int fd, const struct endpoint *to);
    // The guest has not ended this handshake within HALFOPEN_MS; the connection is about to be
    // ended.
    void (*on_late)(void *ctx, int fd, const struct endpoint *to);
    // With stack_set_dials: the guest opens a connection to the outside. Put a socket in the place
    // of its descriptor that becomes readable when the connection is made (one zero byte) or has
    // failed (anything else). False: it has failed already.
    bool (*on_dial)(void *ctx, int fd, const struct endpoint *to);
};

// `is_restricted` makes libslirp itself refuse everything but inward connections.
struct stack *stack_new(const struct stack_events *events, bool is_restricted, struct err *e);
void stack_free(struct stack *s); // closes every socket, and calls on_closed for the dialled ones

// Let on_dial make the guest's TCP connections to the outside, or not. If it does, libslirp never
// connects a TCP socket, except to the host's resolver.
void stack_set_dials(struct stack *s, bool dials);

// Give libslirp a frame that the filter let through. A frame after a hole is dropped when libslirp
// holds too many of them.
void stack_input(struct stack *s, const struct packet *p);
// Give libslirp a frame that was made in the guest's name.
void stack_input_made(struct stack *s, uint8_t frame[WIRE_TCP_FRAME_BYTES]);

// stack_opens returns the kind of connection that a packet of the guest opens. A repeated SYN opens
// nothing. A new SYN for the same ports opens a connection if libslirp accepts it. stack_count
// returns the number of open connections of a kind.
enum stack_kind { STACK_NOTHING, STACK_TCP, STACK_UDP };
enum stack_kind stack_opens(struct stack *s, const struct packet *p);
int stack_count(const struct stack *s, enum stack_kind kind);
// Return the counter of the segments that libslirp holds for all connections, also inward ones
// (outward.h).
int *stack_behind(struct stack *s);

// Open a connection to 10.0.2.15:guest_port whose host end is the socket `fd`: libslirp reads and
// writes it. Return 0, or -1 when descriptors or ports are short. On success `*dialled` is
// libslirp's descriptor for the same socket, which libslirp closes; `fd` stays with the caller.
// on_frame has been called with the SYN by then. Must not be called from the events.
int stack_dial(struct stack *s, int fd, uint16_t guest_port, int *dialled);

// Return whether libslirp still held bytes for this dialled socket at the last stack_fill().
bool stack_has_output(const struct stack *s, int fd);

// The guest has sent its FIN on this dialled connection. From now on the client's end of file is
// hidden from libslirp until the client has read everything. libslirp would close the connection as
// soon as the guest acknowledged the end, and lose the bytes that it still held.
void stack_mark_ending(struct stack *s, int fd);

// Close the socket of this descriptor with a reset to its peer, and put a broken socket in its
// place. libslirp finds the connection reset when it next reads it, or when it has connected it,
// and then resets the guest's side. Return false on failure.
bool stack_reset(int fd);

// End this outward TCP connection at both ends: now, or at the next wait while it is connecting.
// on_closed is called. Must not be called from the events.
void stack_end(struct stack *s, int fd);
// End the connections whose handshake the guest has not ended in time.
void stack_end_late(struct stack *s);

// End each outward TCP connection for which `denies` gives a reason. Return their number.
struct stack_connection {
    int fd;
    struct endpoint to;
    bool is_connecting;
};
int stack_cut(struct stack *s, const char *(*denies)(void *ctx, const struct stack_connection *c),
              void *ctx);

// The steps before and after poll(2). `hold` says which host sockets are not read (back-pressure):
// none, those to the outside, or all. *timeout is in ms, -1 for ever, and may become shorter.
enum stack_hold { STACK_HOLD_NOTHING, STACK_HOLD_OUTSIDE, STACK_HOLD_ALL };
void stack_fill(struct stack *s, struct pollset *set, enum stack_hold hold, int *timeout);
void stack_poll(struct stack *s, const struct pollset *set);
