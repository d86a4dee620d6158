// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers (proto3, https://protobuf.dev/programming-guides/encoding), as far as envd's
// services need it. A table describes each message. One walk of the table turns the binary form
// into JSON by the rules of https://protobuf.dev/programming-guides/json, another walk turns it
// back. So the handlers of messages see JSON, whichever form the client uses.
//
// proto_decode and proto_normalize make JSON of one form: lowerCamel names, no null, no unknown
// member, at most one member of each oneof.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

enum proto_type {
    PROTO_BOOL,
    PROTO_UINT32,
    PROTO_SINT32,
    PROTO_INT64, // in JSON a string
    PROTO_ENUM,  // in JSON the name, or the number of a value without one
    PROTO_STRING,
    PROTO_BYTES, // in JSON base64
    PROTO_MESSAGE,
    PROTO_TIMESTAMP,  // google.protobuf.Timestamp; in JSON RFC 3339
    PROTO_STRING_MAP, // map<string, string>
};

struct proto_enum {
    const char *name; // NULL ends a table
    int number;
};

struct proto_field {
    uint32_t number;
    enum proto_type type;
    const char *name;     // lowerCamel
    const char *original; // the name in the .proto file; NULL when it is the same
    const struct proto_message *message;
    const struct proto_enum *values;
    bool repeated;     // of PROTO_MESSAGE and PROTO_STRING
    bool has_presence; // "optional", or in a oneof: the default value differs from absence
    uint8_t oneof;     // number of the oneof in the message; 0: none
};

struct proto_message {
    size_t count;
    const struct proto_field *fields; // sorted by number
};

// Decode a message. New reference; NULL with ERR_INVALID for an invalid message, for text that is
// not UTF-8 or holds a NUL, and for more than JSON_VALUES_MAX values. Unknown fields are skipped.
json_t *proto_decode(const struct proto_message *m, const void *data, size_t len, struct err *e);
// Append a message. ERR_INVALID for a member of a wrong type; `out` then has a part of the message.
int proto_encode(const struct proto_message *m, const json_t *message, struct buf *out,
                 struct err *e);
// Append `item` as one element of the repeated message `name`. Pieces appended one after the other
// form the message with all elements.
int proto_encode_item(const struct proto_message *m, const char *name, const json_t *item,
                      struct buf *out, struct err *e);
// Append a message in which only one field of bytes is set: the one to which `path`
// (NULL-terminated) leads through nested messages.
void proto_put_bytes(const struct proto_message *m, const char *const *path, const void *data,
                     size_t len, struct buf *out);

// Bring a client's JSON, which may have original names, null and unknown members, into the one
// form. Types are checked only where a message belongs. ERR_INVALID for a member that is named
// twice, and for two members of one oneof.
int proto_normalize(const struct proto_message *m, json_t *message, struct err *e);
