// SPDX-License-Identifier: Apache-2.0
// A set of public keys, and the check of a signature.
#include "mcp-server/auth/jwks.h"

#include <dlfcn.h>
#include <jose/cfg.h>
#include <jose/jws.h>
#include <stdint.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

#define LIBRARY "libjose.so.0"

// The number of keys that are tried for a token. Several fit when the token or the keys have no
// `kid`, and each try costs a check of a signature.
#define TRIES_MAX 8

// ---- libjose

static struct {
    __typeof__(jose_jws_ver) *verify;
    jose_cfg_t *config; // sends libjose's errors to on_jose_error, not to stderr
} jose;

static void on_jose_error(void *ctx, const char *file, int line, uint64_t error, const char *fmt,
                          va_list args)
{
    (void)ctx, (void)file, (void)line, (void)error, (void)fmt, (void)args;
}

int jwks_load_library(struct err *e)
{
    if (jose.verify)
        return 0;
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); // for the life of the process
    if (!library)
        return err_set(e, ERR_UNAVAILABLE,
                       "signatures cannot be checked without libjose (Debian: libjose0): %s",
                       dlerror());
    __typeof__(jose_cfg) *make = dlsym(library, "jose_cfg");
    __typeof__(jose_cfg_set_err_func) *set = dlsym(library, "jose_cfg_set_err_func");
    __typeof__(jose_jws_ver) *verify = dlsym(library, "jose_jws_ver");
    if (!make || !set || !verify)
        return err_set(e, ERR_UNAVAILABLE,
                       "the library %s is incomplete; install libjose again (Debian: libjose0)",
                       LIBRARY);
    jose.config = make();
    set(jose.config, on_jose_error, NULL);
    jose.verify = verify;
    return 0;
}

// The algorithm is one that jwt.c accepts, so libjose may take it from the token.
bool jwks_verify_with(const struct jwt *t, const json_t *jwk)
{
    return jwt_algorithm_takes(t->algorithm, jwk) &&
           jose.verify(jose.config, t->jws, NULL, jwk, false);
}

// ---- the keys

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
    json_array_foreach (all, i, key) {
        if (is_usable(key) && json_array_size(usable) < JWKS_KEYS_MAX)
            json_array_append(usable, key);
    }
    if (!usable)
        err_set(e, ERR_INVALID, "not a JSON Web Key Set: it must have the form {\"keys\": [...]}");
    json_decref(document);
    return usable;
}

// Try the keys that take the token's algorithm: with_name those whose `kid` is this one (NULL: all
// keys), else only the keys without a `kid`.
static enum jwks_verdict try_keys(const json_t *keys, const struct jwt *t, const char *kid,
                                  bool with_name)
{
    enum jwks_verdict verdict = JWKS_UNKNOWN_KEY;
    int tries = 0;
    size_t i;
    json_t *key;
    json_array_foreach (keys, i, key) {
        const char *name = json_string_value(json_object_get(key, "kid"));
        if ((with_name && kid && !str_eq(name, kid)) || (!with_name && name) ||
            !jwt_algorithm_takes(t->algorithm, key))
            continue;
        if (tries++ == TRIES_MAX)
            break;
        if (jwks_verify_with(t, key))
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
    // A key without a `kid` may be the one that the token names. When none of these verifies, newer
    // keys still may, so the verdict is not JWKS_BAD.
    return try_keys(keys, t, NULL, false) == JWKS_GOOD ? JWKS_GOOD : JWKS_UNKNOWN_KEY;
}
