// SPDX-License-Identifier: Apache-2.0
// Read the members of a request by the JSON rules of Protocol Buffers
// (https://protobuf.dev/programming-guides/json): a number may be a string, an enum a name or a
// number, bytes are base64 in either alphabet, null means absent, unknown members are ignored.
// Results are borrowed from the object. A member with a value of the wrong type causes ERR_INVALID.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// Return the member `name` or else `alias` (the original snake_case name; may be NULL). NULL if it
// is absent or null.
const json_t *pjson_get(const json_t *object, const char *name, const char *alias);

// Get a member that is a message, an object. *out is NULL if it is absent.
int pjson_message(const json_t *object, const char *name, const json_t **out, struct err *e);
// Get a member of a simple type, or `fallback` if it is absent.
int pjson_string(const json_t *object, const char *name, const char **out, const char *fallback,
                 struct err *e);
int pjson_bool(const json_t *object, const char *name, bool *out, bool fallback, struct err *e);
int pjson_uint32(const json_t *object, const char *name, uint32_t *out, uint32_t fallback,
                 struct err *e);
// Decode bytes and append them to `out`. *present is true for an empty member too.
int pjson_bytes(const json_t *object, const char *name, struct buf *out, bool *present,
                struct err *e);
// Get a member that is an array of strings, or an object of strings. *out is NULL if it is absent.
int pjson_strings(const json_t *object, const char *name, const json_t **out, struct err *e);
int pjson_string_map(const json_t *object, const char *name, const json_t **out, struct err *e);

struct pjson_enum {
    const char *name;
    int number;
};
// Get a member that is an enum: 0 if it is absent; a number is returned unchecked. ERR_INVALID for
// a name that is not in the table.
int pjson_enum(const json_t *object, const char *name, const struct pjson_enum *table, int count,
               int *out, struct err *e);
