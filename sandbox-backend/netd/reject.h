// SPDX-License-Identifier: Apache-2.0
// Answers to packets that are refused, so that a program in the guest fails at once instead of
// waiting: TCP gets a reset, everything else ICMP "administratively prohibited".
#pragma once
#include "sandbox-backend/netd/wire.h"

// An ICMP error quotes the IP header and at least 8 bytes (RFC 792); no more are needed.
#define REJECT_QUOTE_BYTES (WIRE_IPV4_BYTES + 8)
#define REJECT_MAX_BYTES   (WIRE_HEAD_BYTES + WIRE_ICMP_BYTES + REJECT_QUOTE_BYTES)

// Writes the answer to `p`, a packet of the guest that wire_parse() accepted, and returns its
// length; 0 when it must not be answered (a reset, an ICMP error: RFC 1122, 3.2.2).
size_t reject_answer(uint8_t out[REJECT_MAX_BYTES], const struct packet *p);
