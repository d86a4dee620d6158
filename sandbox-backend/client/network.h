// SPDX-License-Identifier: Apache-2.0
// A sandbox's network: what it may open, and what it was refused. cubbyd's alone.
#pragma once
#include "sandbox-backend/client/client.h"

// GET /sandboxes/{id}/network?since=N:
//
//   {"policy":   {"mode": "none" | "public" | "allow", "allow": ["example.com:443", ...],
//                 "deny": ["10.0.0.0/8", ...], "denyWins": true, "limits": {...}},
//    "counters": {"receivedBytes", "receivedPackets", "sentBytes", "sentPackets", "refused",
//                 "refusedByReason": {"private": 3, ...}},
//    "sequence": 7,
//    "refusals": [{"sequence": 7, "count": 2, "timestamp": "2026-11-22T08:00:00Z",
//                  "protocol": "tcp" | "udp" | "icmp" | "other", "address": "10.0.0.1",
//                  "port": 5432, "name": "", "reason": "private"}, ...]}
//
// Each refusal has a number, counted from 1; "sequence" is the last one's. "refusals" are those of
// the last 16 whose number is above `since`, the newest first; such as are the same in all but
// their time are one, with the last one's number and how many they were. So who asks before and
// after a command, with the first answer's "sequence", learns what that command was refused.
//   "name"     what was asked for or said: of DNS, TLS or HTTP; "" when only an address is known
//   "address"  "" when only a name is known, or nothing: of a frame that is no IPv4
//   "port"     0 of what has none
//   "reason"   a few words for a person, printable, at most 47 bytes; "secret NAME: ..." of what
//   was
//              refused for the sake of a secret
// "counters" is null, "sequence" 0 and "refusals" empty while it has no machine (hibernated). It
// wakes nothing, and is no use of the sandbox. `timeout_ms` is for the answer; 0: as for others.
struct client_op *client_network(struct client *c, const char *id, int64_t since,
                                 uint64_t timeout_ms, client_json_cb cb, void *ctx);

// Replaces the policy of a running sandbox, all of it: {"mode", "allow", "deny", "limits"}, or
// E2B's
// {"allowOut", "denyOut", "allow_internet_access"}. It holds when the answer comes; connections
// that it denies are cut. `policy` is borrowed for the call. ERR_INVALID names the entry.
struct client_op *client_network_set(struct client *c, const char *id, const json_t *policy,
                                     client_done_cb cb, void *ctx);
