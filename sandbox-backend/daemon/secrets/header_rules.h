// SPDX-License-Identifier: Apache-2.0
// network.rules of a create request: headers that cubby-egress sets in requests over TLS to a host,
// as E2B's API has them. ${e2b.secrets.NAME} in a value stands for a secret.
//
//   {"api.example.com": [{"transform": {"headers": {"X-Key": "${e2b.secrets.KEY}"}}}]}
//
// A sandbox's record keeps them as the request had them, with hosts in lower case.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

// All rules as cubby-egress gets them. With the longest secrets they fit into its EGRESS_CONFIG_MAX
// (egress/egress.h).
#define HEADER_RULES_BYTES_MAX (1 << 20)

// Read and check the rules; *out is a new reference, or NULL when there are none. ERR_INVALID names
// the host and what is wrong, but no value.
int header_rules_parse(const json_t *rules, json_t **out, struct err *e);

// Call `use` for each secret that a value of the rules holds, as often as it does. Stop at the
// first -1 and return it.
typedef int header_rules_use(const char *host, const char *secret, void *ctx, struct err *e);
int header_rules_each(const json_t *rules, header_rules_use *use, void *ctx, struct err *e);

// Return the rules as cubby-egress reads them (egress/egress.h), with the placeholders of `given`
// (secrets.h) for secrets. New reference.
json_t *header_rules_for_egress(const json_t *rules, const json_t *given);
// Check that cubby-egress accepts them: a placeholder is longer than most names of secrets.
int header_rules_check_filled(const json_t *rules, const json_t *given, struct err *e);
