// SPDX-License-Identifier: Apache-2.0
// The server of vm.net for a guest without a network card. It joins each connection to the socket
// to a port on the loopback of this network namespace, 127.0.0.1 or else ::1. The protocol is that
// of netd (netd/inward): the client sends "CONNECT <port>\n" and gets "OK\n" or "ERR <reason>\n".
#pragma once
#include <poll.h>
#include <stddef.h>

#define RELAY_MAX 512 // connections at once
#define RELAY_FDS (1 + 2 * RELAY_MAX)

struct relay;

// envd: path of a unix socket that stands for envd's port; the relay then also serves the port of
// envd's own relay, because envd has none. NULL: both are ports of the loopback. Both arguments are
// borrowed.
struct relay *relay_new(int listener, const char *envd);
void relay_free(struct relay *r);
// Fill in entries for poll(2), at most RELAY_FDS, and return their number. Pass the same entries to
// relay_serve after poll.
size_t relay_watch(struct relay *r, struct pollfd *fds);
// Return the time limit for that call of poll in ms; -1: none. A relay that has run out of
// descriptors accepts nothing for this time.
int relay_wait_ms(const struct relay *r);
void relay_serve(struct relay *r, const struct pollfd *fds);
