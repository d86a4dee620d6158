// SPDX-License-Identifier: Apache-2.0
// Read the members of a request by the JSON rules of Protocol Buffers.
#include "sandbox-backend/envd/rpc/pjson.h"

#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/str.h"

const json_t *pjson_get(const json_t *object, const char *name, const char *alias)
{
    const json_t *value = json_object_get(object, name);
    if (!value && alias)
        value = json_object_get(object, alias);
    return json_is_null(value) ? NULL : value;
}

int pjson_message(const json_t *object, const char *name, const json_t **out, struct err *e)
{
    *out = pjson_get(object, name, NULL);
    if (*out && !json_is_object(*out))
        return err_set(e, ERR_INVALID, "%s must be an object", name);
    return 0;
}

int pjson_string(const json_t *object, const char *name, const char **out, const char *fallback,
                 struct err *e)
{
    const json_t *value = pjson_get(object, name, NULL);
    *out = value ? json_string_value(value) : fallback;
    if (value && !*out)
        return err_set(e, ERR_INVALID, "%s must be a string", name);
    return 0;
}

int pjson_bool(const json_t *object, const char *name, bool *out, bool fallback, struct err *e)
{
    const json_t *value = pjson_get(object, name, NULL);
    *out = value ? json_is_true(value) : fallback;
    if (value && !json_is_boolean(value))
        return err_set(e, ERR_INVALID, "%s must be true or false", name);
    return 0;
}

// Accept an integer, a string of one, or a real number without a fraction.
static bool integer_of(const json_t *value, int64_t min, int64_t max, int64_t *out)
{
    if (json_is_string(value))
        return str_to_int(json_string_value(value), min, max, out);
    if (json_is_real(value)) {
        double d = json_real_value(value);
        if (!(d >= (double)min && d <= (double)max) || (double)(int64_t)d != d)
            return false;
        *out = (int64_t)d;
        return true;
    }
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= min && *out <= max;
}

int pjson_uint32(const json_t *object, const char *name, uint32_t *out, uint32_t fallback,
                 struct err *e)
{
    const json_t *value = pjson_get(object, name, NULL);
    int64_t n = fallback;
    if (value && !integer_of(value, 0, UINT32_MAX, &n))
        return err_set(e, ERR_INVALID, "%s must be an unsigned 32-bit integer", name);
    *out = (uint32_t)n;
    return 0;
}

int pjson_bytes(const json_t *object, const char *name, struct buf *out, bool *present,
                struct err *e)
{
    const json_t *value = pjson_get(object, name, NULL);
    *present = value != NULL;
    if (value && (!json_is_string(value) ||
                  !base64_decode(out, json_string_value(value), json_string_length(value))))
        return err_set(e, ERR_INVALID, "%s must be base64", name);
    return 0;
}

int pjson_strings(const json_t *object, const char *name, const json_t **out, struct err *e)
{
    *out = pjson_get(object, name, NULL);
    if (*out && !json_is_array(*out))
        return err_set(e, ERR_INVALID, "%s must be an array of strings", name);
    for (size_t i = 0; i < json_array_size(*out); i++)
        if (!json_is_string(json_array_get(*out, i)))
            return err_set(e, ERR_INVALID, "%s[%zu] must be a string", name, i);
    return 0;
}

int pjson_string_map(const json_t *object, const char *name, const json_t **out, struct err *e)
{
    json_t *map = NULL;
    int rc = json_get_string_map(object, name, &map, e);
    *out = map;
    return rc;
}

int pjson_enum(const json_t *object, const char *name, const struct pjson_enum *table, int count,
               int *out, struct err *e)
{
    const json_t *value = pjson_get(object, name, NULL);
    *out = 0;
    if (!value)
        return 0;
    int64_t n;
    if (!json_is_string(value) && integer_of(value, INT32_MIN, INT32_MAX, &n)) {
        *out = (int)n;
        return 0;
    }
    const char *text = json_string_value(value);
    for (int i = 0; text && i < count; i++)
        if (strcmp(table[i].name, text) == 0) {
            *out = table[i].number;
            return 0;
        }
    return err_set(e, ERR_INVALID, "%s has an unknown value %s", name, text ? text : "");
}
