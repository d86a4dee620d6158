// SPDX-License-Identifier: Apache-2.0
// JWT access tokens.
#include "mcp-server/auth/jwt.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SUBJECT_BYTES_MAX 1024
#define EXPIRY_MAX_S      (INT64_C(1) << 52) // a double holds every whole number up to here
#define RSA_CHARS_MIN     342                // base64 length of a modulus of 2048 bits

static const struct jwt_algorithm ALGORITHMS[] = {
    {"RS256", "RSA", NULL},   {"RS384", "RSA", NULL},   {"RS512", "RSA", NULL},
    {"PS256", "RSA", NULL},   {"PS384", "RSA", NULL},   {"PS512", "RSA", NULL},
    {"ES256", "EC", "P-256"}, {"ES384", "EC", "P-384"}, {"ES512", "EC", "P-521"},
};

void jwt_fini(struct jwt *t)
{
    json_decref(t->header);
    json_decref(t->claims);
    json_decref(t->jws);
    *t = (struct jwt){0};
}

// ---- reading

static json_t *decode(const char *part, size_t len, const char *what, struct err *e)
{
    struct buf text auto_buf = BUF_INIT;
    struct err why = ERR_INIT;
    json_t *value = NULL;
    if (base64_decode(&text, part, len))
        value = json_parse(buf_str(&text), text.len, &why);
    if (json_is_object(value))
        return value;
    json_decref(value);
    err_set(e, ERR_UNAUTHENTICATED, "the token's %s is not a base64url-encoded JSON object", what);
    return NULL;
}

static bool is_access_token(const char *type)
{
    return !type || strcasecmp(type, "JWT") == 0 || strcasecmp(type, "at+jwt") == 0 ||
           strcasecmp(type, "application/at+jwt") == 0;
}

static const struct jwt_algorithm *find_algorithm(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(ALGORITHMS); i++)
        if (str_eq(ALGORITHMS[i].name, name))
            return &ALGORITHMS[i];
    return NULL;
}

static int read_header(struct jwt *t, struct err *e)
{
    struct err why = ERR_INIT;
    const char *name;
    const char *type;
    if (json_get_string(t->header, "alg", &name, "", &why) < 0 ||
        json_get_string(t->header, "typ", &type, NULL, &why) < 0 ||
        json_get_string(t->header, "kid", &t->kid, NULL, &why) < 0)
        return err_set(e, ERR_UNAUTHENTICATED, "the token's header is invalid: %s", why.msg);
    t->algorithm = find_algorithm(name);
    if (!t->algorithm)
        return err_set(e, ERR_UNAUTHENTICATED,
                       "the token is signed with algorithm '%.20s', which is not accepted; use RS, "
                       "PS or ES with 256, 384 or 512 bits, such as RS256",
                       name);
    if (!is_access_token(type))
        return err_set(
            e, ERR_UNAUTHENTICATED,
            "the token's type (typ) is %.40s; an access token has the type at+jwt or JWT", type);
    // A critical extension must be understood (RFC 7515, 4.1.11), and none is implemented here.
    if (json_object_get(t->header, "crit") || json_object_get(t->header, "b64"))
        return err_set(e, ERR_UNAUTHENTICATED,
                       "the token's header has critical extensions, which are not supported");
    return 0;
}

int jwt_parse(const char *token, size_t len, struct jwt *out, struct err *e)
{
    static const char BASE64URL[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    *out = (struct jwt){0};
    if (len > JWT_BYTES_MAX)
        return err_set(e, ERR_UNAUTHENTICATED, "the token is longer than %d bytes", JWT_BYTES_MAX);
    char *text auto_free = xstrndup(token, len);
    char *parts[3];
    size_t lens[3];
    char *at = text;
    for (int i = 0; i < 3; i++) {
        parts[i] = at;
        lens[i] = strspn(at, BASE64URL);
        at += lens[i];
        if (lens[i] == 0 || *at != (i < 2 ? '.' : '\0'))
            return err_set(e, ERR_UNAUTHENTICATED,
                           "the token is not known to this server, and it is not a JWT");
        *at++ = '\0';
    }
    out->header = decode(parts[0], lens[0], "header", e);
    out->claims = out->header ? decode(parts[1], lens[1], "payload", e) : NULL;
    out->jws = json_pack("{s:s, s:s, s:s}", "protected", parts[0], "payload", parts[1], "signature",
                         parts[2]);
    if (out->claims && read_header(out, e) == 0)
        return 0;
    jwt_fini(out);
    return -1;
}

// ---- claims

static bool has_audience(const json_t *aud, const char *wanted)
{
    size_t i;
    json_t *one;
    json_array_foreach (aud, i, one) {
        if (str_eq(json_string_value(one), wanted))
            return true;
    }
    return json_is_string(aud) && str_eq(json_string_value(aud), wanted);
}

static int check_time(const json_t *claims, int64_t now_s, struct err *e)
{
    const json_t *exp = json_object_get(claims, "exp");
    const json_t *nbf = json_object_get(claims, "nbf");
    if (!json_is_number(exp))
        return err_set(e, ERR_UNAUTHENTICATED, "the token has no expiry time (exp)");
    if (json_number_value(exp) + JWT_LEEWAY_S <= (double)now_s)
        return err_set(e, ERR_UNAUTHENTICATED, "the token has expired");
    if (nbf && (!json_is_number(nbf) || json_number_value(nbf) - JWT_LEEWAY_S > (double)now_s))
        return err_set(e, ERR_UNAUTHENTICATED, "the token is not valid yet");
    return 0;
}

int jwt_check_claims(const struct jwt *t, const struct jwt_rules *rules, int64_t now_s,
                     struct err *e)
{
    const json_t *sub = json_object_get(t->claims, "sub");
    if (!str_eq(json_string_value(json_object_get(t->claims, "iss")), rules->issuer))
        return err_set(e, ERR_UNAUTHENTICATED, "the token was not issued by %.120s", rules->issuer);
    if (!has_audience(json_object_get(t->claims, "aud"), rules->audience))
        return err_set(e, ERR_UNAUTHENTICATED,
                       "the token is not for this server: its audience must be %.120s",
                       rules->audience);
    if (check_time(t->claims, now_s, e) < 0)
        return -1;
    if (!json_is_string(sub) || json_string_length(sub) == 0 ||
        json_string_length(sub) > SUBJECT_BYTES_MAX)
        return err_set(e, ERR_UNAUTHENTICATED, "the token has no valid subject (sub)");
    return 0;
}

// Return whether the claim, "a b c" or an array of strings, has this name.
static bool claim_has(const json_t *claim, const char *name)
{
    size_t len = strlen(name);
    size_t i;
    json_t *one;
    json_array_foreach (claim, i, one) {
        if (str_eq(json_string_value(one), name))
            return true;
    }
    const char *at = json_string_value(claim);
    for (; at && *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (n == len && memcmp(at, name, n) == 0)
            return true;
        at += n;
    }
    return false;
}

int jwt_check_scopes(const struct jwt *t, const struct jwt_rules *rules, struct err *e)
{
    for (int i = 0; i < rules->scopes->count; i++) {
        const char *name = rules->scopes->items[i];
        if (!claim_has(json_object_get(t->claims, "scope"), name) &&
            !claim_has(json_object_get(t->claims, "scp"), name))
            return err_set(e, ERR_DENIED, "the token lacks the scope %.80s", name);
    }
    return 0;
}

const char *jwt_subject(const struct jwt *t)
{
    return json_string_value(json_object_get(t->claims, "sub"));
}

int64_t jwt_expiry_s(const struct jwt *t)
{
    double at = floor(json_number_value(json_object_get(t->claims, "exp")));
    return (at < (double)EXPIRY_MAX_S ? (int64_t)at : EXPIRY_MAX_S) + JWT_LEEWAY_S;
}

// ---- the key
bool jwt_algorithm_takes(const struct jwt_algorithm *a, const json_t *jwk)
{
    const char *own = json_string_value(json_object_get(jwk, "alg"));
    const char *use = json_string_value(json_object_get(jwk, "use"));
    if (!str_eq(json_string_value(json_object_get(jwk, "kty")), a->type))
        return false;
    if ((own && !str_eq(own, a->name)) || (use && !str_eq(use, "sig")))
        return false;
    if (a->curve)
        return str_eq(json_string_value(json_object_get(jwk, "crv")), a->curve);
    return json_string_length(json_object_get(jwk, "n")) >= RSA_CHARS_MIN;
}
