// SPDX-License-Identifier: Apache-2.0
// Types and functions that decoding and encoding of Protocol Buffers share.
#pragma once
#include "sandbox-backend/connect/proto.h"

enum proto_wire {
    PROTO_WIRE_VARINT = 0,
    PROTO_WIRE_64 = 1,
    PROTO_WIRE_BYTES = 2,
    PROTO_WIRE_GROUP = 3,
    PROTO_WIRE_GROUP_END = 4,
    PROTO_WIRE_32 = 5,
};

#define PROTO_NANOS_PER_S 1000000000LL

enum proto_wire proto__wire(enum proto_type type);
