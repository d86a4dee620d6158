// SPDX-License-Identifier: Apache-2.0
// vm.net of a guest without a network card: each connection to the socket becomes one to a port of
// this network namespace's loopback. The protocol is netd's (netd/inward): the client sends
// "CONNECT <port>\n" and gets "OK\n" or "ERR <reason>\n".
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
// Fill in entries for poll(2), at most RELAY_FDS, and return their number. After poll, relay_serve
// gets the same entries.
size_t relay_watch(struct relay *r, struct pollfd *fds);
void relay_serve(struct relay *r, const struct pollfd *fds);
