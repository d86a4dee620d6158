// SPDX-License-Identifier: Apache-2.0
// The size that a create request asks for: cpuCount, memoryMB, diskSizeMB.
//
// What is left out, or is what the template has, is the template's. Other memory or processors mean
// that the sandbox boots, as there is no saved machine of that size; a larger disk does not.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/templates.h"

struct store;
struct store_limits;

void new_size_defaults(struct store_limits *limits);
// Fills in t->size, and t->facts to go with it. `wanted` is the template's name, as it was asked
// for. ERR_INVALID says what is possible.
int new_size_parse(const struct store *store, const json_t *body, const char *wanted,
                   struct known_template *t, struct err *e);
