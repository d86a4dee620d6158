// SPDX-License-Identifier: Apache-2.0
// Connections from the host into the guest: the vm.net socket, its CONNECT line, and each
// connection until it is over.
//
// States: FREE -> LINE -> CONNECTING -> OPEN -> FREE, and from each of these states straight to
// FREE.
//
//   LINE        the client has connected and has not sent its line yet
//   CONNECTING  our SYN is on its way; the client gets exactly one "OK" or "ERR ..."
//   OPEN        the guest accepted; libslirp moves the bytes, and we watch for the end
//
// From CONNECTING on the client's socket belongs to libslirp (stack.h), which closes it when the
// TCP connection ends. Early bytes of the client wait in it. netd writes the answer just before
// libslirp sees the guest's SYN+ACK, so no byte of the guest can come before "OK".
#pragma once
#include "sandbox-backend/netd/inward/flow.h"
#include "sandbox-backend/netd/stack/stack.h"
#include "sandbox-backend/netd/wire/frames.h"

#define INWARD_MAX        512         // connections at once, in all states
#define INWARD_LINE_MS    (10 * 1000) // then a client that has sent no line gets "ERR timeout"
#define INWARD_CONNECT_MS (10 * 1000) // the same if the guest has not answered
#define INWARD_RESEND_MS  200         // to the first repeated SYN; doubled for each further one
#define INWARD_ORPHAN_MS  (60 * 1000) // time for the guest to close after its client has gone
#define INWARD_SYN_BYTES  (WIRE_HEAD_BYTES + 60) // a frame with a TCP header and no data

struct inward;

// `listen_fd`, `stack` and `frames` are borrowed.
struct inward *inward_new(int listen_fd, struct stack *stack, struct frames *frames);
// Call this after stack_free. It sends no answers, and closes the sockets in LINE.
void inward_free(struct inward *in);

// Take a TCP packet from libslirp in the gateway's name. False: the guest must not get it.
bool inward_to_guest(struct inward *in, struct packet *p);

// Take a TCP packet from the guest to the gateway. False: it belongs to no connection and must be
// refused.
bool inward_from_guest(struct inward *in, struct packet *p);

// libslirp is about to close the descriptor of a connection.
void inward_on_closed(struct inward *in, int fd);

void inward_fill(struct inward *in, struct pollset *set, int *timeout);
void inward_poll(struct inward *in, const struct pollset *set);

// ---- the line, for its tests

#define INWARD_LINE_MAX_BYTES 14 // "CONNECT 65535\n"

enum inward_line {
    INWARD_LINE_MORE, // the line is incomplete
    INWARD_LINE_BAD,  // the line is invalid
    INWARD_LINE_DONE, // *port is set, and `used` bytes belong to the line
};

// Parse the first `len` bytes of a client. The port is plain decimal, 1 to 65535.
enum inward_line inward_parse_line(const char *data, size_t len, uint16_t *port, size_t *used);
