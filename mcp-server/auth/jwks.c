// SPDX-License-Identifier: Apache-2.0
// A set of public keys.
#include "mcp-server/auth/jwks.h"

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

// Of a token that names no key, or of keys without names, so many are tried: each costs a check of
// a signature.
#define TRIES_MAX 8

static bool is_usable(const json_t *key)
{
    const char *type = json_string_value(json_object_get(key, "kty"));
    const char *use = json_string_value(json_object_get(key, "use"));
    return (str_eq(type, "RSA") || str_eq(type, "EC")) && (!use || str_eq(use, "sig"));
}

json_t *jwks_parse(const char *text, size_t len, struct err *e)
{
    json_t *document = json_parse(text, len, e);
    const json_t *all = json_object_get(document, "keys");
    json_t *usable = json_is_array(all) ? json_array() : NULL;
    size_t i;
    json_t *key;
    json_array_foreach(all, i, key)
    {
        if (is_usable(key) && json_array_size(usable) < JWKS_KEYS_MAX)
            json_array_append(usable, key);
    }
    if (!usable)
        err_set(e, ERR_INVALID, "it is no key set: {\"keys\": [ ... ]}");
    json_decref(document);
    return usable;
}

// kid NULL: keys of any name, or none.
static enum jwks_verdict try_keys(const json_t *keys, const struct jwt *t, const char *kid,
                                  bool with_name)
{
    enum jwks_verdict verdict = JWKS_UNKNOWN_KEY;
    int tries = 0;
    size_t i;
    json_t *key;
    json_array_foreach(keys, i, key)
    {
        const char *name = json_string_value(json_object_get(key, "kid"));
        if ((with_name && kid && !str_eq(name, kid)) || (!with_name && name) ||
            !jwt_algorithm_takes(t->algorithm, key))
            continue;
        if (tries++ == TRIES_MAX)
            break;
        if (jwt_verify(t, key))
            return JWKS_GOOD;
        verdict = JWKS_BAD;
    }
    return verdict;
}

enum jwks_verdict jwks_verify(const json_t *keys, const struct jwt *t)
{
    enum jwks_verdict verdict = try_keys(keys, t, t->kid, true);
    if (verdict != JWKS_UNKNOWN_KEY || !t->kid)
        return verdict;
    // Keys without a name may be of any; that they are not says nothing of what newer ones are.
    return try_keys(keys, t, NULL, false) == JWKS_GOOD ? JWKS_GOOD : JWKS_UNKNOWN_KEY;
}
