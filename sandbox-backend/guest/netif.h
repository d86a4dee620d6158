// SPDX-License-Identifier: Apache-2.0
// The guest's network: the loopback and one card with a fixed address.
#pragma once

// cubby-netd is the other side: the gateway and the name server.
#define NETIF_CARD    "eth0"
#define NETIF_ADDRESS "10.0.2.15"
#define NETIF_MASK    "255.255.255.0"
#define NETIF_GATEWAY "10.0.2.2"
#define NETIF_DNS     "10.0.2.3"
// netd takes frames of 65520 bytes. But libslirp's window is 64 KB, so only one such frame is ever
// in flight. With frames of half the size, the guest works on one while the other is carried, and
// spends a tenth less on each byte (measured under TCG: 65520, 32768, 21888, 16384, 9000). Longer
// UDP packets are fragmented, and netd drops fragments.
#define NETIF_MTU 32768

// Bring up the loopback and the card. A missing card is only reported on the console. The daemon
// reaches envd through the card, so the daemon's wait for envd then fails.
void netif_up(void);
