// SPDX-License-Identifier: Apache-2.0
// Structs as JSON in files: tables of the members that a struct and a JSON object both have.
#pragma once
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// A member of a struct that a JSON object has under the key `key`.
struct json_field {
    const char *key;
    enum json_field_type {
        JSON_FIELD_TEXT, // char *, owned; NULL is null
        JSON_FIELD_INT,  // int, as JSON_FIELD_LONG
        JSON_FIELD_LONG, // int64_t; 0 or more
        JSON_FIELD_BOOL,
    } type;
    size_t offset;
    int64_t max; // of a number; 0: any
};
#define JSON_FIELD(TYPE, object, member)                                 \
    {                                                                    \
        .key = #member, .type = TYPE, .offset = offsetof(object, member) \
    }

// Write the members. -1: a text is not UTF-8.
int json_fields_write(json_t *json, const void *object, const struct json_field *fields,
                      size_t count);
// Read the members. An absent one leaves its field as it is. -1 with ERR_INVALID names a bad one.
int json_fields_read(void *object, const json_t *json, const struct json_field *fields,
                     size_t count, struct err *e);

// Read a file of at most `max` bytes. New reference, or NULL; the error names the file.
json_t *json_file_read(const char *path, size_t max, struct err *e);
