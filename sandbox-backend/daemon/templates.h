// SPDX-License-Identifier: Apache-2.0
// The templates of this home, as the API names them.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"

struct store;

struct known_template {
    char *name; // owned
    char *dir;  // owned
    struct machine_facts facts;
};

// By name, by "<name>:default" or "<name>:latest", or "base", the name that the E2B SDKs ask for by
// themselves and that stands for "default" unless there is a template of that name. ERR_NOT_FOUND
// says how to make one; another error why it cannot be used on this host.
int templates_find(const struct store *store, const char *wanted, struct known_template *out,
                   struct err *e);
void templates_fini(struct known_template *t);

json_t *templates_list(const struct store *store); // array of E2B's Template; new reference
