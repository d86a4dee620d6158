// SPDX-License-Identifier: Apache-2.0
// The server name in a TLS ClientHello (RFC 8446, 4.1.2; RFC 6066, 3), over one record or many.
//
// Strict where a server could understand something else than we do: one list of names, one name in
// it, nothing behind the message in its last record. With Encrypted ClientHello this is the outer
// name, which is all that anybody on the way can see.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/netd/server_name.h"

#define TLS_HELLO_MAX   16384 // of the message, and of the bytes it comes in
#define TLS_RECORD_TYPE 22    // the first byte: handshake

enum tls_hello_state {
    TLS_HELLO_MORE, // not whole yet
    TLS_HELLO_BAD,  // *why says what is wrong
    TLS_HELLO_DONE, // `name` is set, to "" when the client says none
};

// `data` are the first bytes of a client, of which the first is TLS_RECORD_TYPE.
enum tls_hello_state tls_hello_parse(struct server_name *name, const uint8_t *data, size_t len,
                                     const char **why);
