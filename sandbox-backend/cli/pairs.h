// SPDX-License-Identifier: Apache-2.0
// NAME=VALUE arguments as a JSON object.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

// New reference; NULL in *out when there are none. `option` is named by the error.
int pairs_parse(const struct opt_list *list, const char *option, json_t **out, struct err *e);
