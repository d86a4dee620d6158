// SPDX-License-Identifier: Apache-2.0
// Check a call's arguments against the tool's inputSchema. This is the part of JSON Schema 2020-12
// that our schemas use (type, required, properties, additionalProperties, items, maxItems, enum,
// const, minimum, maximum, minLength and maxLength in bytes, pattern, default).
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

// Return a new object: the arguments, with the defaults of those that are absent. `arguments` may
// be NULL: none. On an error return NULL with ERR_INVALID: a sentence that names the argument, what
// is wrong with it and what is allowed.
//
// An optional argument counts as absent when it is null, and when it is "" or 0 and the schema does
// not allow that value. So the schema says where "" or 0 mean something: there it allows them
// ("minimum": 0, "minLength": 0); elsewhere it excludes them ("minimum": 1, "minLength": 1, an
// enum).
//
// Common mistakes are repaired: a number, true, false or a list in a string, an object for a list
// of "name=value", and a name in `aliases` (an object of aliases and right names; NULL: none). An
// unknown `description` is ignored.
json_t *schema_apply(const json_t *schema, const json_t *aliases, const json_t *arguments,
                     struct err *e);
