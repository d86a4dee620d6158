// SPDX-License-Identifier: Apache-2.0
// The line with which a client of vm.net asks for a guest's port: "CONNECT <port>\n".
#pragma once
#include <stddef.h>
#include <stdint.h>

#define REQUEST_LINE_MAX_BYTES 14 // "CONNECT 65535\n"

enum request_state {
    REQUEST_MORE, // no line yet
    REQUEST_BAD,  // it will never be one
    REQUEST_DONE, // *port is set, and `used` bytes belong to the line
};

// Looks at the first `len` bytes of what a client sent. The port is plain decimal, 1 to 65535.
enum request_state request_parse(const char *data, size_t len, uint16_t *port, size_t *used);
