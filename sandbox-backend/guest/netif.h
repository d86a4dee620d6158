// SPDX-License-Identifier: Apache-2.0
// The guest's network: the loopback and one card with a fixed address.
#pragma once

// The host's side of these is cubby-netd: gateway, name server.
#define NETIF_CARD    "eth0"
#define NETIF_ADDRESS "10.0.2.15"
#define NETIF_MASK    "255.255.255.0"
#define NETIF_GATEWAY "10.0.2.2"
#define NETIF_DNS     "10.0.2.3"
// netd takes frames of 65520 bytes. But libslirp's window is 64 KB, so that one of those is all
// that is ever on its way: with half of it the guest works while the other is carried, and spends a
// tenth less on each byte (measured under TCG: 65520, 32768, 21888, 16384, 9000). What UDP sends
// above this is cut in fragments, which netd drops.
#define NETIF_MTU 32768

// Brings both up. A missing card is said on the console and no more: envd is reached through it,
// so the host's wait for envd is what fails.
void netif_up(void);
