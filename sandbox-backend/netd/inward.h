// SPDX-License-Identifier: Apache-2.0
// Connections from the host into the guest: the vm.net socket, its CONNECT line, and what becomes
// of each connection until it is over.
//
// States:  FREE -> LINE -> CONNECTING -> OPEN -> FREE, and from each of them straight to FREE.
//   LINE        the client has connected and has not yet said which port
//   CONNECTING  our SYN is under way; the client will be told "OK" or "ERR ..." exactly once
//   OPEN        the guest accepted. The bytes are libslirp's business; we only watch for the end
//
// The client's socket is libslirp's from CONNECTING on (stack.h), which closes it when the TCP
// connection ends; early bytes of the client simply wait in it. The answer is written by us just
// before libslirp sees the guest's SYN+ACK, so nothing of the guest's can come before "OK".
#pragma once
#include "sandbox-backend/netd/flow.h"
#include "sandbox-backend/netd/frames.h"
#include "sandbox-backend/netd/request.h"
#include "sandbox-backend/netd/stack.h"

#define INWARD_MAX        512         // connections at once, in all states
#define INWARD_LINE_MS    (10 * 1000) // a client that says nothing: "ERR timeout"
#define INWARD_CONNECT_MS (10 * 1000) // a guest that does not answer: "ERR timeout"
#define INWARD_RESEND_MS  200         // first repetition of a SYN; each further one waits twice
#define INWARD_ORPHAN_MS  (60 * 1000) // a guest that does not close when its client is gone
#define INWARD_SYN_BYTES  (WIRE_HEAD_BYTES + 60) // a frame with a TCP header and no data

struct inward;

// `listen_fd`, `stack` and `frames` are borrowed.
struct inward *inward_new(int listen_fd, struct stack *stack, struct frames *frames);
void inward_free(struct inward *in); // after the stack: answers nobody, closes what is in LINE

// A TCP packet from libslirp in the gateway's name. False: the guest must not see it.
bool inward_to_guest(struct inward *in, struct packet *p);

// A TCP packet from the guest to the gateway. False when it belongs to no connection and is to be
// refused; else it has been dealt with.
bool inward_from_guest(struct inward *in, struct packet *p);

// libslirp is about to close the descriptor of a connection.
void inward_on_closed(struct inward *in, int fd);

void inward_fill(struct inward *in, struct pollset *set, int *timeout);
void inward_poll(struct inward *in, const struct pollset *set);
