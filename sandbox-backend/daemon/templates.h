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

// The template that a name stands for: its own name, "<name>:default" or "<name>:latest", or an
// alias. Aliases are the members of <home>/templates/aliases.json, {"alias": "template"}, and
// besides, unless they are there or are templates, "base" and "code-interpreter-v1": the names that
// E2B's SDKs ask for by themselves, for "default". New string, NULL when there is none.
char *templates_resolve(const struct store *store, const char *wanted);
// ERR_NOT_FOUND says how to make one; another error why it cannot be used on this host.
int templates_find(const struct store *store, const char *wanted, struct known_template *out,
                   struct err *e);
void templates_fini(struct known_template *t);

json_t *templates_list(const struct store *store); // array of E2B's Template; new reference
json_t *templates_detail(const struct store *store,
                         const struct known_template *t); // E2B's TemplateWithBuilds; the same
