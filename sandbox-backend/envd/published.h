// SPDX-License-Identifier: Apache-2.0
// What the guest's other programs may know of what /init has set: files on the tmpfs of envd's
// state. environment.json is the global environment, an object of strings, which the Python kernel
// reads when a run starts; .E2B_SANDBOX, .E2B_SANDBOX_ID and .E2B_TEMPLATE_ID hold the variables of
// those names, as E2B's tools look for them.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

// Writes what `after` has and `before` (NULL: nothing) had not, each file as a whole, by rename.
// Tries all; the first failure is told.
int published_write(const char *dir, const json_t *before, json_t *after, struct err *e);
// Puts into `next` what `now` says about the sandbox itself and `next` does not: a program's
// variables are replaced as a whole, these are not a program's.
void published_keep(const json_t *now, json_t *next);
