// SPDX-License-Identifier: Apache-2.0
// How much of the network a guest may use.
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// What a guest may have open, and what it gets when nothing else is said. netd counts on the first.
#define NET_CONNECTIONS_MAX   512 // open at once to the outside, TCP; UDP source ports likewise
#define NET_NEW_PER_S_MAX     5000
#define NET_NEW_PER_S         256
#define NET_BYTES_PER_S_LEAST 1000
#define NET_BYTES_PER_S_MAX   (INT64_C(1) << 40)

// How much, of each kind. 0: NET_CONNECTIONS_MAX, NET_NEW_PER_S, as many bytes as go.
struct net_limits {
    int64_t connections;         // "connections": TCP, open at once
    int64_t connections_per_s;   // "connectionsPerSecond": new ones; twice as many at one time
    int64_t udp_ports;           // "udpPorts": source ports in use
    int64_t udp_ports_per_s;     // "udpPortsPerSecond": new ones; twice as many at one time
    int64_t receive_bytes_per_s; // "receiveBytesPerSecond": to the guest
    int64_t send_bytes_per_s;    // "sendBytesPerSecond": from the guest
};

// From {"connections": 100, ...}; NULL and null are no limits of its own. ERR_INVALID for an
// unknown member and for a number out of its range.
int net_limits_from_json(struct net_limits *limits, const json_t *json, struct err *e);
json_t *net_limits_to_json(const struct net_limits *limits); // what is set. New reference
