// SPDX-License-Identifier: Apache-2.0
// The secrets of one sandbox, as the daemon keeps them: their names and placeholders, and the
// certificate authority with which cubby-egress speaks TLS to the guest. They have no values:
//
//   {"given": {NAME: {"placeholder": "cubby-secret-<32 hex>", "env": "OPENAI_API_KEY"}},
//    "rules": {...},   (header_rules.h)
//    "proxy": {...},   (egress_proxy.h)
//    "ca": {"certificate": PEM, "key": PEM}}
//
// "stored": true marks a secret made through the API. A wake finds it in the store alone, so that a
// later entry of the secrets file with its name does not replace it. Each wake checks again whether
// the secrets file gives a secret to the owner.
//
// A secret that only the rules use has no "env": the guest does not get its placeholder. If it has
// no hosts of its own, "hosts" has those of the rules that use it.
//
// The rules and the proxy can change while the sandbox lives. The secrets of its create and the
// authority stay. A sandbox whose last rule and proxy were removed, and that has no secrets, keeps
// its authority but needs no cubby-egress.
//
// The sandbox's record keeps this object (sandbox.json, 0600), because a wake from an image needs
// it. A snapshot has none of it. A fork has its parent's, because its processes go on with the
// parent's placeholders. A sandbox that is created from a snapshot gets new placeholders and a new
// authority.
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

#define SECRETS_OF_ONE_MAX 32

struct secrets_opts {
    const char *path;                  // --secrets; NULL: no secrets file
    const char *trust;                 // --egress-trust; NULL: the system's authorities
    const struct secret_store *stored; // secrets made through the API
    bool private_network;              // proxies may have private addresses
};

// The part of a create request that is about secrets. All is borrowed.
struct secrets_wish {
    const json_t *names; // "secrets": ["NAME", ...]; may be NULL
    const json_t *rules; // network.rules; may be NULL
    const json_t *proxy; // network.egressProxy; may be NULL
    const char *owner;   // NULL: the unix socket
    const json_t *env;   // of the request
};

// *out is the object above, or NULL when the request names no secret, rule or proxy. Values are
// read and checked, so that an unusable one is reported now.
int secrets_wanted(const struct secrets_opts *opts, const struct secrets_wish *wish, json_t **out,
                   struct err *e);

// *out is `secrets` (the object above, or NULL) with the rules and the proxy of `wish`: a new
// object, or NULL if nothing is left. Values are read and checked.
int secrets_with_network(const struct secrets_opts *opts, const json_t *secrets,
                         const struct secrets_wish *wish, json_t **out, struct err *e);
// Return whether cubby-egress must get the guest's TLS and HTTP connections, and whether it must
// make them through a proxy. Without either, the sandbox needs none.
bool secrets_need_hands(const json_t *secrets);
bool secrets_need_dials(const json_t *secrets);

// Secrets that cannot be used now, as `owner` may be told. NULL: none is missing.
struct secrets_missing {
    char *names; // owned, as is the next
    char *why;   // why the first one is missing
};
void secrets_missing_fini(struct secrets_missing *missing);

// Return the text for cubby-egress (egress/egress.h), with the present values, as a new string to
// be wiped (secrets_wipe); NULL if no egress is needed. A secret that cannot be used is left out,
// logged, and named in `missing`. `on_value` (may be NULL) is called
// with each value, which is borrowed.
typedef void (*secrets_value_cb)(const char *value, void *ctx);
char *secrets_egress(const struct secrets_opts *opts, const json_t *secrets, const char *owner,
                     secrets_value_cb on_value, void *ctx, struct secrets_missing *missing);
void secrets_wipe(char **text); // wipe, free, and set to NULL

// Add to the environment of a guest where programs find certificate authorities.
void secrets_add_bundles(json_t *env);
// Add this, and the placeholders.
void secrets_environment(const json_t *secrets, json_t *env);
// Return the certificate that the guest trusts, as PEM; "" without secrets. Borrowed.
const char *secrets_certificate(const json_t *secrets);
json_t *secrets_names(const json_t *secrets); // of "secrets"; an array. New reference
json_t *secrets_rules(const json_t *secrets); // network.rules, or NULL. Borrowed
json_t *secrets_proxy(
    const json_t *secrets); // network.egressProxy with its password, or NULL. Borrowed
