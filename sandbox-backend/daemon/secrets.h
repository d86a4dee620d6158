// SPDX-License-Identifier: Apache-2.0
// The secrets of one sandbox, as the daemon keeps them: which, what stands for each in the guest,
// and the certificate authority with which cubby-egress speaks TLS to it. No value.
//
//   {"given": {"OPENAI_API_KEY": {"placeholder": "cubby-secret-<32 hex>", "env":
//   "OPENAI_API_KEY"}},
//    "ca": {"certificate": PEM, "key": PEM}}
//
// It is in the sandbox's record (sandbox.json, 0600), as it is needed again when the sandbox is
// woken from its image, and by no one else: a snapshot has nothing of it. A fork has its parent's,
// as what runs in it goes on with the parent's placeholders. A sandbox that is made from a snapshot
// has what it is made with: new placeholders, a new authority.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/err.h"

#define SECRETS_OF_ONE_MAX 32

struct store;

struct secrets_opts {
    const char *path;  // --secrets; NULL: there are none
    const char *trust; // what hosts are verified with; NULL: the system's
};

// "secrets" of a create request, ["NAME", ...], of this caller (NULL: the unix socket's): the
// object above in *out, or NULL when there are none. Values are looked at, so that what is wrong
// with one is said now. `env` is what the request says of the environment.
int secrets_wanted(const struct store *store, const json_t *names, const char *owner,
                   const json_t *env, json_t **out, struct err *e);

// What is no longer to be had, for `owner` to be told. NULL: nothing is missing.
struct secrets_missing {
    char *names; // owned, as both
    char *why;   // of the first one
};
void secrets_missing_fini(struct secrets_missing *missing);

// What cubby-egress is told (egress/egress.h), with values as they are now; one that is no longer
// to be had is left out, logged, and in `missing`. New string, to be wiped (secrets_wipe); NULL
// when `secrets` is.
char *secrets_egress(const struct store *store, const json_t *secrets, const char *owner,
                     struct secrets_missing *missing);
void secrets_wipe(char **text); // wipes, frees, and leaves NULL

// Into the environment of a guest: placeholders, and where programs find certificate authorities.
void secrets_environment(const json_t *secrets, json_t *env);
// What a guest is to trust: a certificate in PEM form, "" without secrets. Borrowed.
const char *secrets_certificate(const json_t *secrets);
json_t *secrets_names(const json_t *secrets); // for views: an array. New reference
