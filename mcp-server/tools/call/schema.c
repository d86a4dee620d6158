// SPDX-License-Identifier: Apache-2.0
// Checks arguments against a tool's inputSchema.
#include "mcp-server/tools/call/schema.h"

#include <math.h>
#include <regex.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define SHOWN_BYTES 60     // of a value that is quoted back
#define EXACT_MAX   0x1p53 // a double holds every whole number up to here exactly

static int check_value(const json_t *schema, const json_t *value, const char *name, struct err *e);

static bool is_type(const char *type, const json_t *value)
{
    if (str_eq(type, "string"))
        return json_is_string(value);
    if (str_eq(type, "integer"))
        return json_is_integer(value);
    if (str_eq(type, "number"))
        return json_is_number(value);
    if (str_eq(type, "boolean"))
        return json_is_boolean(value);
    if (str_eq(type, "object"))
        return json_is_object(value);
    if (str_eq(type, "array"))
        return json_is_array(value);
    return str_eq(type, "null") && json_is_null(value);
}

static const char *type_name(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

static const char *with_article(const char *type)
{
    return strchr("aeiou", type[0]) ? "an" : "a";
}

static int check_type(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    const json_t *types = json_object_get(schema, "type");
    const char *type = json_string_value(types);
    if (json_is_array(types)) {
        size_t i;
        json_t *one;
        json_array_foreach (types, i, one) {
            if (is_type(json_string_value(one), value))
                return 0;
        }
        type = json_string_value(json_array_get(types, 0)); // the one that errors name
    }
    if (!type || is_type(type, value))
        return 0;
    if (str_eq(type, "array") && json_object_get(json_object_get(schema, "items"), "pattern"))
        return err_set(e, ERR_INVALID,
                       "argument '%s' must be an array of NAME=value strings, or an object whose "
                       "values are strings or numbers",
                       name);
    return err_set(e, ERR_INVALID, "argument '%s' must be %s %s, not %s", name, with_article(type),
                   type, type_name(value));
}

static int check_range(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *max = json_object_get(schema, "maximum");
    if (!json_is_number(value))
        return 0;
    double v = json_number_value(value);
    if ((!min || v >= json_number_value(min)) && (!max || v <= json_number_value(max)))
        return 0;
    if (min && max)
        return err_set(e, ERR_INVALID, "argument '%s' must be from %.10g to %.10g, not %.10g", name,
                       json_number_value(min), json_number_value(max), v);
    return err_set(e, ERR_INVALID, "argument '%s' must be at %s %.10g, not %.10g", name,
                   min ? "least" : "most", json_number_value(min ? min : max), v);
}

static int check_length(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    const json_t *min = json_object_get(schema, "minLength");
    const json_t *max = json_object_get(schema, "maxLength");
    if (!json_is_string(value))
        return 0;
    json_int_t len = (json_int_t)json_string_length(value);
    if (min && len < json_integer_value(min))
        return err_set(e, ERR_INVALID, "argument '%s' must not be empty", name);
    if (max && len > json_integer_value(max))
        return err_set(e, ERR_INVALID, "argument '%s' is longer than %lld bytes", name,
                       (long long)json_integer_value(max));
    return 0;
}

static int check_const(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    const json_t *only = json_object_get(schema, "const");
    if (!only || json_equal(only, value))
        return 0;
    char *text auto_free = json_to_string(only);
    return err_set(e, ERR_INVALID, "argument '%s' must be %s", name, text);
}

static int check_enum(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    const json_t *allowed = json_object_get(schema, "enum");
    size_t i;
    json_t *one;
    json_array_foreach (allowed, i, one) {
        if (json_equal(one, value))
            return 0;
    }
    if (!allowed)
        return 0;
    char *list auto_free = json_to_string(allowed);
    char *got auto_free = json_to_string(value);
    got[utf8_valid_prefix(got, strnlen(got, SHOWN_BYTES))] = '\0';
    return err_set(e, ERR_INVALID, "argument '%s' must be one of %s, not %s", name, list, got);
}

static void list_names(struct buf *out, const json_t *properties)
{
    const char *name;
    json_t *property;
    json_object_foreach ((json_t *)(uintptr_t)properties, name, property) {
        buf_printf(out, "%s%s", out->len ? ", " : "", name);
    }
    if (out->len == 0)
        buf_adds(out, "none");
}

static int fail_unknown(const json_t *properties, const char *name, const char *within,
                        struct err *e)
{
    struct buf names auto_buf = BUF_INIT;
    list_names(&names, properties);
    int shown = (int)utf8_valid_prefix(name, strnlen(name, SHOWN_BYTES));
    return err_set(e, ERR_INVALID, "unknown argument '%s%s%.*s'; allowed: %s", within ? within : "",
                   within ? "." : "", shown, name, buf_str(&names));
}

// Check against `pattern`. JSON Schema has ECMAScript's regular expressions; our schemas use only
// those that mean the same in POSIX's extended syntax.
static int check_pattern(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    const char *pattern = json_string_value(json_object_get(schema, "pattern"));
    regex_t compiled;
    if (!pattern || !json_is_string(value) ||
        regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return 0;
    int no_match = regexec(&compiled, json_string_value(value), 0, NULL, 0);
    regfree(&compiled);
    if (!no_match)
        return 0;
    const char *got = json_string_value(value);
    return err_set(e, ERR_INVALID, "argument '%s' must match %s, which \"%.*s\" does not", name,
                   pattern, (int)utf8_valid_prefix(got, strnlen(got, SHOWN_BYTES)), got);
}

static int check_items(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    const json_t *items = json_object_get(schema, "items");
    const json_t *max = json_object_get(schema, "maxItems");
    size_t i;
    json_t *one;
    if (max && (json_int_t)json_array_size(value) > json_integer_value(max))
        return err_set(e, ERR_INVALID, "argument '%s' must have at most %lld items, not %zu", name,
                       (long long)json_integer_value(max), json_array_size(value));
    json_array_foreach (value, i, one) {
        char *its auto_free = str_printf("%s[%zu]", name, i);
        if (json_is_object(items) && check_value(items, one, its, e) < 0)
            return -1;
    }
    return 0;
}

// Check an object's members: allowed ones, and required ones.
static int check_members(const json_t *schema, const json_t *value, const char *within,
                         struct err *e)
{
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *more = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        const json_t *its = json_object_get(properties, key);
        if (!its && json_is_false(more))
            return fail_unknown(properties, key, within, e);
        if (!its)
            its = more;
        int shown = (int)utf8_valid_prefix(key, strnlen(key, SHOWN_BYTES));
        char *name auto_free = within ? str_printf("%s.%.*s", within, shown, key) : xstrdup(key);
        if (json_is_object(its) && check_value(its, member, name, e) < 0)
            return -1;
    }
    const json_t *required = json_object_get(schema, "required");
    size_t i;
    json_array_foreach (required, i, member) {
        const char *name = json_string_value(member);
        if (!json_object_get(value, name))
            return err_set(e, ERR_INVALID, "missing required argument '%s%s%s'",
                           within ? within : "", within ? "." : "", name);
    }
    return 0;
}

static int check_value(const json_t *schema, const json_t *value, const char *name, struct err *e)
{
    if (check_type(schema, value, name, e) < 0 || check_const(schema, value, name, e) < 0 ||
        check_enum(schema, value, name, e) < 0 || check_range(schema, value, name, e) < 0 ||
        check_length(schema, value, name, e) < 0 || check_pattern(schema, value, name, e) < 0)
        return -1;
    if (json_is_array(value))
        return check_items(schema, value, name, e);
    return json_is_object(value) ? check_members(schema, value, name, e) : 0;
}

// Refuse strings with a NUL, because C would read them only up to the NUL.
static int check_nuls(const json_t *args, const char *within, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)args, key, value) {
        int shown = (int)utf8_valid_prefix(key, strnlen(key, SHOWN_BYTES));
        char *name auto_free =
            str_printf("%s%s%.*s", within ? within : "", within ? "." : "", shown, key);
        if (json_is_object(value) && check_nuls(value, name, e) < 0)
            return -1;
        if (!json_is_object(value) && json_has_nul(value))
            return err_set(e, ERR_INVALID, "argument '%s' contains a NUL character", name);
    }
    return 0;
}

static bool is_required(const json_t *schema, const char *name)
{
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(schema, "required"), i, one) {
        if (str_eq(json_string_value(one), name))
            return true;
    }
    return false;
}

static bool is_blank(const json_t *value)
{
    return (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_number(value) && json_number_value(value) == 0);
}

// Some clients make a model give every argument (OpenAI's strict mode). The model then gives null,
// "" or 0 for an argument that it would leave out.
static void drop_blanks(const json_t *schema, json_t *args)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe (args, next, name, value) {
        struct err ignored = ERR_INIT;
        const json_t *property = json_object_get(json_object_get(schema, "properties"), name);
        if (!property || is_required(schema, name))
            continue;
        if (json_is_null(value) ||
            (is_blank(value) && check_value(property, value, name, &ignored) < 0))
            json_object_del(args, name);
    }
}

// ---- repairs of common mistakes in arguments

// Rename arguments from an alias to the right name, unless both are given. Drop a `description` of
// the call, which some models add by habit.
static void rename_aliases(const json_t *schema, const json_t *aliases, json_t *args)
{
    const json_t *properties = json_object_get(schema, "properties");
    const char *alias;
    json_t *meant;
    json_object_foreach ((json_t *)(uintptr_t)aliases, alias, meant) {
        json_t *value = json_object_get(args, alias);
        if (!value || json_object_get(args, json_string_value(meant)))
            continue;
        json_object_set(args, json_string_value(meant), value);
        json_object_del(args, alias);
    }
    if (!json_object_get(properties, "description"))
        json_object_del(args, "description");
}

// Return the number that a string holds, a new reference; NULL: it holds none.
static json_t *number_in(const char *s, size_t len)
{
    int64_t whole;
    char *end;
    if (len == 0 || strlen(s) != len || strspn(s, "0123456789+-.eE") != len)
        return NULL;
    if (str_to_int(s, INT64_MIN, INT64_MAX, &whole))
        return json_integer(whole);
    double v = strtod(s, &end);
    return *end || !isfinite(v) ? NULL : json_real(v);
}

// Return the list or object whose JSON the string is, a new reference; NULL: it is none.
static json_t *list_in(const char *s, size_t len)
{
    struct err ignored = ERR_INIT;
    const char *first = s + strspn(s, " \t\r\n");
    return *first == '[' || *first == '{' ? json_parse(s, len, &ignored) : NULL;
}

// Return the value that a string stands for, a new reference; NULL: keep the string.
static json_t *unquoted(const char *type, const json_t *value)
{
    const char *s = json_string_value(value);
    if (s && (str_eq(type, "integer") || str_eq(type, "number")))
        return number_in(s, json_string_length(value));
    if (s && str_eq(type, "boolean") && (strcasecmp(s, "true") == 0 || strcasecmp(s, "false") == 0))
        return json_boolean(strcasecmp(s, "true") == 0);
    if (s && str_eq(type, "array"))
        return list_in(s, json_string_length(value));
    return NULL;
}

// Return the entries "name=value" of an object, a new reference; NULL unless all values are simple.
static json_t *entries_of(const json_t *object)
{
    json_t *list = json_array();
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, name, value) {
        char *text auto_free =
            json_is_string(value) ? xstrdup(json_string_value(value)) : json_to_string(value);
        char *entry auto_free = str_printf("%s=%s", name, text);
        if (json_is_object(value) || json_is_array(value) || json_has_nul(value)) {
            json_decref(list);
            return NULL;
        }
        json_array_append_new(list, json_string(entry));
    }
    return list;
}

// Return the list that an object stands for: the object alone, or its members as "name=value".
static json_t *list_of(const json_t *items, const json_t *object)
{
    if (str_eq(json_string_value(json_object_get(items, "type")), "object"))
        return json_pack("[O]", object);
    return entries_of(object);
}

// JSON Schema counts 3.0 as an integer, and some languages write integers so. Some models write
// numbers, booleans and lists as strings, and an object for a list of "name=value".
static json_t *meant_value(const json_t *property, const json_t *value)
{
    const char *type = json_string_value(json_object_get(property, "type"));
    double v = json_real_value(value);
    if (str_eq(type, "integer") && json_is_real(value) && v >= -EXACT_MAX && v <= EXACT_MAX &&
        (double)(json_int_t)v == v)
        return json_integer((json_int_t)v);
    if (str_eq(type, "array") && json_is_object(value))
        return list_of(json_object_get(property, "items"), value);
    json_t *meant = unquoted(type, value);
    bool again = json_is_real(meant) || json_is_object(meant);
    json_t *whole = again ? meant_value(property, meant) : NULL;
    if (!whole)
        return meant;
    json_decref(meant);
    return whole;
}

static void make_meant(const json_t *schema, json_t *args)
{
    const char *name;
    json_t *value;
    void *next;
    json_object_foreach_safe (args, next, name, value) {
        const json_t *property = json_object_get(json_object_get(schema, "properties"), name);
        json_t *meant = property ? meant_value(property, value) : NULL;
        if (meant)
            json_object_set_new(args, name, meant);
    }
}

// Make of the arguments what is meant, also within objects of lists. These are copied, because they
// are parts of the client's request.
static void fit(const json_t *schema, json_t *args)
{
    const char *name;
    const json_t *property;
    make_meant(schema, args);
    drop_blanks(schema, args);
    json_object_foreach (json_object_get(schema, "properties"), name, property) {
        const json_t *items = json_object_get(property, "items");
        if (!json_object_get(items, "properties") || !json_is_array(json_object_get(args, name)))
            continue;
        json_t *list = json_deep_copy(json_object_get(args, name));
        size_t i;
        json_t *one;
        json_object_set_new(args, name, list);
        json_array_foreach (list, i, one) {
            if (json_is_object(one))
                fit(items, one);
        }
    }
}

json_t *schema_apply(const json_t *schema, const json_t *aliases, const json_t *arguments,
                     struct err *e)
{
    json_t *args = json_object();
    if (arguments)
        json_object_update(args, (json_t *)(uintptr_t)arguments);
    rename_aliases(schema, aliases, args);
    fit(schema, args);
    if (check_nuls(args, NULL, e) < 0 || check_members(schema, args, NULL, e) < 0) {
        json_decref(args);
        return NULL;
    }
    const char *name;
    json_t *property;
    json_object_foreach (json_object_get(schema, "properties"), name, property) {
        json_t *value = json_object_get(property, "default");
        if (value && !json_is_null(value) && !json_object_get(args, name))
            json_object_set(args, name, value);
    }
    return args;
}
