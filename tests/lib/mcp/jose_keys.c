// SPDX-License-Identifier: Apache-2.0
// Keys and signed tokens for tests, by libjose.
#include "tests/lib/mcp/jose_keys.h"

#include <dlfcn.h>
#include <jose/b64.h>
#include <jose/jwk.h>
#include <jose/jws.h>
#include <stdlib.h>

#include "sandbox-backend/base/str.h"

static void *find(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen("libjose.so.0", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, name) : NULL;
    if (!found)
        abort();
    return found;
}

json_t *jose_keys_new(const char *algorithm, const char *kid)
{
    __typeof__(jose_jwk_gen) *make = find("jose_jwk_gen");
    json_t *key = json_pack("{s:s}", "alg", algorithm);
    if (!make(NULL, key))
        abort();
    if (kid)
        json_object_set_new(key, "kid", json_string(kid));
    return key;
}

char *jose_keys_public(const json_t *keys)
{
    __typeof__(jose_jwk_pub) *strip = find("jose_jwk_pub");
    json_t *set = json_pack("{s:o}", "keys", json_deep_copy(keys));
    size_t i;
    json_t *key;
    json_array_foreach (json_object_get(set, "keys"), i, key) {
        if (!strip(NULL, key))
            abort();
    }
    char *text = json_dumps(set, 0);
    json_decref(set);
    return text;
}

char *jose_keys_sign(const json_t *key, const char *algorithm, json_t *header, json_t *claims)
{
    __typeof__(jose_jws_sig) *sign = find("jose_jws_sig");
    __typeof__(jose_b64_enc_dump) *encode = find("jose_b64_enc_dump");
    json_t *jws = json_pack("{s:o}", "payload", encode(claims));
    json_t *template = json_pack("{s:o}", "protected", header ? header : json_object());
    json_t *protected = json_object_get(template, "protected");
    json_object_set_new(protected, "alg", json_string(algorithm));
    if (!json_object_get(protected, "kid") && json_object_get(key, "kid"))
        json_object_set(protected, "kid", json_object_get(key, "kid"));
    if (!sign(NULL, jws, template, key))
        abort();
    char *token = str_printf("%s.%s.%s", json_string_value(json_object_get(jws, "protected")),
                             json_string_value(json_object_get(jws, "payload")),
                             json_string_value(json_object_get(jws, "signature")));
    json_decref(jws);
    json_decref(template);
    json_decref(claims);
    return token;
}
