// SPDX-License-Identifier: Apache-2.0
// Rules of one sandbox: headers that cubby-egress sets in requests to certain hosts, in place of
// what the guest sent under these names. A value may hold a secret's placeholder.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"

#define RULES_MAX            64
#define RULE_HEADERS_MAX     32
#define RULE_NAME_BYTES_MAX  128
#define RULE_VALUE_BYTES_MAX 8192

struct rule_header {
    char *name, *value; // owned
};

struct rule {
    char *host; // owned; a pattern (base/host_pattern.h)
    struct rule_header *headers;
    size_t count;
};

struct rules {
    struct rule *items; // owned, with everything in it
    size_t count;
};

// NULL stands for no rules. ERR_INVALID names the host, never a value. Call rules_fini in any case.
int rules_from_json(struct rules *r, const json_t *list, struct err *e);
void rules_fini(struct rules *r); // wipes the values

// Return the rule for a host, or NULL: the one with exactly this name, else the one with the
// longest suffix.
const struct rule *rules_for(const struct rules *r, const char *host);
bool rule_sets(const struct rule *rule, const char *header); // `rule` may be NULL
