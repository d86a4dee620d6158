// SPDX-License-Identifier: Apache-2.0
// The plan of a build, from a Dockerfile or from a plan file (format 1, as docs/templates.md says).
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

#define PLAN_FORMAT    1
#define PLAN_BYTES_MAX (8 << 20)

// Read a plan file and check the types of its members. New reference, or NULL with ERR_INVALID.
json_t *plan_load(const char *path, struct err *e);
// Read a Dockerfile; "-" is stdin. The plan is as dockerfile.h says, with "dockerfile": true.
json_t *plan_from_dockerfile(const char *path, struct err *e);
// Return how many stages and actions the plan has, at least.
int plan_size(const json_t *plan);
// Return the text of a step or a stage for a person: a line of the Dockerfile, or "RUN make".
// New string.
char *plan_text(const json_t *step);
