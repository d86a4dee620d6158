// SPDX-License-Identifier: Apache-2.0
// One end of a TLS connection: OpenSSL between pieces of memory, so that the loop alone has
// sockets. Towards the guest we are the server, towards a host the client.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/egress/leaf.h"

#define TLS_END_PLAIN_BYTES 16384 // the longest record

// What all connections share.
struct tls_ends;
// `trust`: PEM file of the authorities that hosts are verified with; NULL: this system's.
struct tls_ends *tls_ends_new(struct leaves *leaves, const char *trust, struct err *e);
void tls_ends_free(struct tls_ends *t); // the leaves stay

enum tls_end_event {
    TLS_END_MORE, // all was taken; more bytes are needed
    TLS_END_DATA,
    TLS_END_OVER, // the peer has said that it sends no more
    TLS_END_BAD,  // see tls_end_why; what is sealed may hold an alert
};

struct tls_end;
// `name` is the connection's: a name or an address in digits. What is to be sent is added to
// `sealed` (borrowed, as long as the end). NULL when OpenSSL cannot.
struct tls_end *tls_end_serve(struct tls_ends *t, const char *name, struct buf *sealed);
struct tls_end *tls_end_dial(struct tls_ends *t, const char *name, struct buf *sealed);
void tls_end_free(struct tls_end *s);

void tls_end_start(struct tls_end *s); // of a dialled one: the first flight
void tls_end_give(struct tls_end *s, const char *data, size_t len); // copied
enum tls_end_event tls_end_take(struct tls_end *s, char *into, size_t room, size_t *len);
bool tls_end_is_established(const struct tls_end *s);
bool tls_end_seal(struct tls_end *s, const void *data, size_t len); // false: it cannot
void tls_end_bye(struct tls_end *s);
const char *tls_end_why(const struct tls_end *s); // borrowed
