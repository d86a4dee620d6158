// SPDX-License-Identifier: Apache-2.0
// Arguments against a tool's inputSchema: the part of JSON Schema 2020-12 that ours use (type,
// required, properties, additionalProperties, items, maxItems, enum, const, minimum, maximum,
// minLength and maxLength in bytes, pattern, default).
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

// A new object: the arguments with the defaults of those that are absent. An optional argument
// that is null counts as absent. NULL with ERR_INVALID: a sentence that names the argument, what
// is wrong with it and what is allowed. `arguments` may be NULL: none.
json_t *schema_apply(const json_t *schema, const json_t *arguments, struct err *e);
