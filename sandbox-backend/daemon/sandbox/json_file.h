// SPDX-License-Identifier: Apache-2.0
// A machine's facts and size in the daemon's files.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/json_fields.h"
#include "sandbox-backend/drivers/driver.h"

json_t *machine_facts_to_json(const struct machine_facts *facts); // new reference
int machine_facts_from_json(struct machine_facts *facts, const json_t *json, struct err *e);

json_t *machine_size_to_json(const struct machine_size *size); // new reference
// NULL is a size of nothing: the template's.
int machine_size_from_json(struct machine_size *size, const json_t *json, struct err *e);
