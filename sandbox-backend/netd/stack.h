// SPDX-License-Identifier: Apache-2.0
// libslirp as an object: the TCP/IP stack between the guest's frames and host sockets.
//
// libslirp opens every descriptor itself and tells us of it (register_poll_fd). We use that to
// count what the guest has opened, exactly, and to put a descriptor of our own in the place of one
// that libslirp has just accepted (stack_dial) or connected (the gate).
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/net_limits.h"
#include "sandbox-backend/base/net_rule.h"
#include "sandbox-backend/netd/pollset.h"
#include "sandbox-backend/netd/wire.h"

#define STACK_TCP_OUT_MAX NET_CONNECTIONS_MAX // that the guest may have open to the outside
#define STACK_UDP_OUT_MAX NET_CONNECTIONS_MAX // source ports; libslirp keeps each for 4 minutes

struct stack;

struct stack_events {
    void *ctx;
    void (*on_frame)(void *ctx, const uint8_t *frame, size_t len); // for the guest
    // libslirp is about to close a dialled descriptor, or one that connects or has connected.
    void (*on_closed)(void *ctx, int fd);
    // An outward connection stands, and libslirp does not know yet: another descriptor may take the
    // place of its own now.
    void (*on_connected)(void *ctx, int fd, const struct endpoint *to);
    // The guest has not ended the handshake of this one in HALFOPEN_MS: it is about to be ended.
    void (*on_late)(void *ctx, int fd, const struct endpoint *to);
};

// `is_restricted` makes libslirp itself refuse whatever is not an inward connection.
struct stack *stack_new(const struct stack_events *events, bool is_restricted, struct err *e);
void stack_free(struct stack *s); // closes every socket; on_closed is called for the dialled ones

// A frame from the guest that the filter let through. It is dropped when libslirp would only keep
// it, and keeps enough.
void stack_input(struct stack *s, const struct packet *p);
// One that was made in the guest's name.
void stack_input_made(struct stack *s, uint8_t frame[WIRE_TCP_FRAME_BYTES]);

// What a packet of the guest's would open, and how many such the guest has open. A SYN that is
// repeated opens nothing; another one of the same ports does, when libslirp takes it.
enum stack_kind { STACK_NOTHING, STACK_TCP, STACK_UDP };
enum stack_kind stack_opens(struct stack *s, const struct packet *p);
int stack_count(const struct stack *s, enum stack_kind kind);
// What libslirp may keep behind holes: the count of all connections, inward ones too (behind.h).
int *stack_behind(struct stack *s);

// Opens a connection to 10.0.2.15:guest_port whose host end is the socket `fd`: its bytes are what
// libslirp sends and receives. 0, or -1 when descriptors or ports are short. On success `*dialled`
// is libslirp's descriptor for the same socket, which libslirp closes; `fd` remains the caller's.
// The SYN has been given to on_frame by then. Not to be called from the events.
int stack_dial(struct stack *s, int fd, uint16_t guest_port, int *dialled);

// Whether libslirp still holds bytes for this dialled socket, as of the last stack_fill().
bool stack_has_output(const struct stack *s, int fd);

// The guest has sent its FIN on this dialled connection. From here on the client's end of file is
// kept from libslirp until the client has taken everything: libslirp would close the connection as
// soon as the guest acknowledged the end, and lose what it still held.
void stack_mark_ending(struct stack *s, int fd);

// Makes libslirp find the connection of this descriptor reset, which it passes on to the guest,
// when next it reads from it or has connected it. The socket that was there is closed, and its peer
// reset.
bool stack_reset(int fd);

// Ends this outward TCP connection at both ends, now, or where it connects at the next wait. Not to
// be called from the events; on_closed is called.
void stack_end(struct stack *s, int fd);
// Ends those whose handshake the guest does not end.
void stack_end_late(struct stack *s);

// Ends each outward TCP connection for which `denies` gives a reason. How many there were.
struct stack_connection {
    int fd;
    struct endpoint to;
    bool is_connecting;
};
int stack_cut(struct stack *s, const char *(*denies)(void *ctx, const struct stack_connection *c),
              void *ctx);

// The steps of waiting. What is held is not read (back-pressure): every host socket, or only those
// of connections to the outside. *timeout is in ms, -1 for ever, and may become shorter.
enum stack_hold { STACK_HOLD_NOTHING, STACK_HOLD_OUTSIDE, STACK_HOLD_ALL };
void stack_fill(struct stack *s, struct pollset *set, enum stack_hold hold, int *timeout);
void stack_poll(struct stack *s, const struct pollset *set);
