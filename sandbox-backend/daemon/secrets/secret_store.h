// SPDX-License-Identifier: Apache-2.0
// The secrets that clients make through the API, as E2B's secrets API has them. They lie in
// <home>/secrets/, mode 0700:
//
//   index.json       name, owner, metadata and version of each; mode 0600
//   <id>.<version>   the value, one line; mode 0600
//
// A starting daemon removes the values that the index does not name. A name belongs to an owner,
// who has at most SECRETS_STORED_MAX. No answer shows a value. For a sandbox, a stored secret is
// like one of the secrets file: its value is read when a machine starts. Two keys of the metadata
// have a meaning:
//
//   cubby.hosts      the hosts that it is for, with commas between; a create may then name it in
//                    `secrets`. Without it, only network.rules may use it
//   cubby.env_name   the variable in the guest; default: the name in capital letters, with _ for
//                    other characters
#pragma once
#include <jansson.h>
#include <stdint.h>
#include <sys/queue.h>

#include "sandbox-backend/base/err.h"

#define SECRETS_STORED_MAX  100
#define SECRET_ID_PREFIX    "sec_"
#define SECRET_HOSTS_KEY    "cubby.hosts"
#define SECRET_ENV_NAME_KEY "cubby.env_name"

struct stored_secret {
    TAILQ_ENTRY(stored_secret) link;
    char *id;         // owned; SECRET_ID_PREFIX and 20 hexadecimal digits
    char *name;       // owned; in lower case
    char *owner;      // owned; name of the API key; NULL: the unix socket
    json_t *metadata; // owned; an object of strings
    int64_t version;  // from 1 on
    int64_t created_ns, updated_ns;
};

struct secret_store {
    char *dir;                       // owned
    TAILQ_HEAD(, stored_secret) all; // the oldest first
};

// ERR_INVALID: the index is damaged.
int secret_store_open(struct secret_store *s, const char *home, struct err *e);
void secret_store_fini(struct secret_store *s);

// Find a secret of this owner by its name, or one that the owner may see by its id; or NULL.
struct stored_secret *secret_store_find(const struct secret_store *s, const char *name,
                                        const char *owner);
// NULL on failure: ERR_INVALID, ERR_EXISTS or ERR_LIMIT. `metadata` may be NULL.
struct stored_secret *secret_store_add(struct secret_store *s, const char *name, const char *value,
                                       json_t *metadata, const char *owner, struct err *e);
// Store a new version. Metadata of NULL stays as it is.
int secret_store_change(struct secret_store *s, struct stored_secret *secret, const char *value,
                        json_t *metadata, struct err *e);
int secret_store_remove(struct secret_store *s, struct stored_secret *secret, struct err *e);
// Remove all secrets of an API key. A failure leaves the rest.
int secret_store_remove_of(struct secret_store *s, const char *owner, struct err *e);

// Return the secret of this name as an entry of the secrets file (secret_file.h), without hosts if
// it has none. New reference, or NULL: the owner has no such secret.
json_t *secret_store_entry(const struct secret_store *s, const char *name, const char *owner);
