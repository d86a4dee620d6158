// SPDX-License-Identifier: Apache-2.0
// Protocol Buffers (proto3, https://protobuf.dev/programming-guides/encoding), as far as envd's
// services need it. A message is described by a table; one walk of it turns the binary form into
// JSON by the rules of https://protobuf.dev/programming-guides/json, another one turns it back. So
// whoever handles a message sees JSON, whichever a client speaks.
//
// The JSON that comes out, and that proto_normalize makes of a client's, is in one form: lowerCamel
// names, no null, no unknown member, of each oneof one member at most.
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
    const char *original; // NULL when it is the same
    const struct proto_message *message;
    const struct proto_enum *values;
    bool repeated;     // of PROTO_MESSAGE and PROTO_STRING
    bool has_presence; // "optional": set is more than not the default. So is a member of a oneof
    uint8_t oneof;     // of the message; 0 is none
};

struct proto_message {
    size_t count;
    const struct proto_field *fields; // by their numbers
};

// New reference; NULL with ERR_INVALID for what is no such message, for text that is not UTF-8 or
// holds a NUL, and for more than JSON_VALUES_MAX values. Unknown fields are skipped.
json_t *proto_decode(const struct proto_message *m, const void *data, size_t len, struct err *e);
// Appends. ERR_INVALID for a member of a wrong type; `out` then holds part of it.
int proto_encode(const struct proto_message *m, const json_t *message, struct buf *out,
                 struct err *e);
// Appends `item` as one element of the repeated message `name`: such pieces after one another are
// the message with all of them.
int proto_encode_item(const struct proto_message *m, const char *name, const json_t *item,
                      struct buf *out, struct err *e);
// Appends the message in which nothing is set but the bytes that `path` (NULL-terminated) leads to,
// through messages in messages.
void proto_put_bytes(const struct proto_message *m, const char *const *path, const void *data,
                     size_t len, struct buf *out);

// Brings a client's JSON, which may use original names, null and members we do not know, into the
// one form. Types are not looked at, but where a message belongs. ERR_INVALID for what names a
// member twice, or two of one oneof.
int proto_normalize(const struct proto_message *m, json_t *message, struct err *e);
