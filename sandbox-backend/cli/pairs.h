// SPDX-License-Identifier: Apache-2.0
// What options were given more than once, as JSON: NAME=VALUE as an object, names as an array.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

// New reference; NULL in *out when there are none. `option` is named by the error.
int pairs_parse(const struct opt_list *list, const char *option, json_t **out, struct err *e);
// New reference, also when there are none; NULL with `e`.
json_t *names_parse(const struct opt_list *list, const char *option, struct err *e);
