// SPDX-License-Identifier: Apache-2.0
// The server of vm.net for a guest without a network card. It joins each connection to the socket
// to a port on the loopback of this network namespace. The protocol is netd's (netd/inward): the
// client sends "CONNECT <port>\n" and gets "OK\n" or "ERR <reason>\n".
#pragma once
#include <poll.h>
#include <stddef.h>

#define RELAY_MAX   512 // connections at once
#define RELAY_PORTS 2
#define RELAY_FDS   (1 + 2 * RELAY_MAX)

// A port that stands for another one: the guest's envd has a port that the kernel chose.
struct relay_port {
    int asked, real;
};

struct relay;

struct relay *relay_new(int listener /* borrowed */, const struct relay_port ports[RELAY_PORTS]);
void relay_free(struct relay *r);
// Fill in entries for poll(2), at most RELAY_FDS, and return their number. Pass the same entries to
// relay_serve after poll.
size_t relay_watch(struct relay *r, struct pollfd *fds);
void relay_serve(struct relay *r, const struct pollfd *fds);
