// SPDX-License-Identifier: Apache-2.0
// Reading requests by the JSON rules of Protocol Buffers
// (https://protobuf.dev/programming-guides/json): numbers may be strings, enums names or numbers,
// bytes base64 of either alphabet, null is unset, unknown members are ignored. Everything returned
// is borrowed from the object.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

// The member `name`, or `alias` when there is none (the original, snake_case name; may be NULL).
// NULL when absent or null.
const json_t *pjson_get(const json_t *object, const char *name, const char *alias);

// A message member: NULL in *out when absent, -1 when it is no object.
int pjson_message(const json_t *object, const char *name, const json_t **out, struct err *e);
// Absent gives the fallback.
int pjson_string(const json_t *object, const char *name, const char **out, const char *fallback,
                 struct err *e);
int pjson_bool(const json_t *object, const char *name, bool *out, bool fallback, struct err *e);
int pjson_uint32(const json_t *object, const char *name, uint32_t *out, uint32_t fallback,
                 struct err *e);
// Decodes into `out`; *present says whether the member was there, also when it is empty.
int pjson_bytes(const json_t *object, const char *name, struct buf *out, bool *present,
                struct err *e);
// An array whose elements are all strings, an object whose members are; NULL when absent.
int pjson_strings(const json_t *object, const char *name, const json_t **out, struct err *e);
int pjson_string_map(const json_t *object, const char *name, const json_t **out, struct err *e);

struct pjson_enum {
    const char *name;
    int number;
};
// 0 when absent; a name that is not in the table is ERR_INVALID, a number is taken as it is.
int pjson_enum(const json_t *object, const char *name, const struct pjson_enum *table, int count,
               int *out, struct err *e);
