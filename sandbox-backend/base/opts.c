// SPDX-License-Identifier: Apache-2.0
// A table of options: flag, environment, file, default, help.
#include "sandbox-backend/base/opts.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define MEGABYTE (1LL << 20)

static bool is_choice(const char *choices, const char *value)
{
    size_t n = strcspn(value, "|");
    if (value[n]) // only one suffix is allowed
        return false;
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, value, n) == 0 && (at[n] == '|' || at[n] == '\0'))
            return true;
    return false;
}

static bool parse_size(const char *text, int64_t *out)
{
    static const char SUFFIXES[] = "KMGT";
    char *digits auto_free = xstrdup(text);
    size_t n = strlen(digits);
    const char *suffix = n ? strchr(SUFFIXES, digits[n - 1]) : NULL;
    int shift = 0;
    if (suffix && *suffix) {
        shift = 10 * (int)(suffix - SUFFIXES + 1);
        digits[n - 1] = '\0';
    }
    int64_t v = 0;
    if (!str_to_int(digits, 0, INT64_MAX >> shift, &v))
        return false;
    *out = v << shift;
    return true;
}

// Return a size as a user writes it, such as 128M; new string. Other numbers have no suffix.
static char *show_number(const struct opt *o, int64_t n)
{
    static const char *const SUFFIXES[] = {"", "K", "M", "G", "T"};
    size_t i = 0;
    while (o->type == OPT_SIZE && n && n % 1024 == 0 && i < ARRAY_LEN(SUFFIXES) - 1) {
        n /= 1024;
        i++;
    }
    return str_printf("%lld%s", (long long)n, SUFFIXES[i]);
}

// Return what follows a size that is wrong. Whoever forgets the unit gives a small number.
static const char *hint_of_unit(const struct opt *o, int64_t size, const char *text)
{
    if (o->type != OPT_SIZE || text[strspn(text, "0123456789")])
        return "";
    bool is_forgotten = size < o->min && o->min >= MEGABYTE;
    return is_forgotten ? " bytes; give a unit, as in 512M or 4G" : " bytes";
}

static int set_number(const struct opt *o, const char *shown, const char *text, struct err *e)
{
    int64_t v = 0;
    bool ok =
        o->type == OPT_SIZE ? parse_size(text, &v) : str_to_int(text, INT64_MIN, INT64_MAX, &v);
    if (!ok)
        return err_set(e, ERR_INVALID, "%s takes a %s, not \"%s\"", shown,
                       o->type == OPT_SIZE ? "size such as 512M or 4G" : "whole number", text);
    if ((o->min || o->max) && (v < o->min || v > o->max)) {
        char *min auto_free = show_number(o, o->min);
        char *max auto_free = show_number(o, o->max);
        char *range auto_free = o->max == INT64_MAX ? str_printf("at least %s", min)
                                                    : str_printf("from %s to %s", min, max);
        return err_set(e, ERR_INVALID, "%s must be %s, not %s%s", shown, range, text,
                       hint_of_unit(o, v, text));
    }
    *(int64_t *)o->value = v;
    return 0;
}

static int add_item(struct opt_list *list, const char *shown, const char *text,
                    enum opt_source from, struct err *e)
{
    if (list->from != from)
        list->count = 0;
    list->from = from;
    if (list->count == OPT_LIST_MAX)
        return err_set(e, ERR_INVALID, "%s has more than %d items", shown, OPT_LIST_MAX);
    list->items[list->count++] = text;
    return 0;
}

static int set_value(const struct opt *o, const char *shown, const char *text, enum opt_source from,
                     struct err *e)
{
    switch (o->type) {
    case OPT_FLAG:
        *(bool *)o->value = strcmp(text, "0") != 0 && strcmp(text, "") != 0;
        return 0;
    case OPT_STRING:
        if (o->choices && !is_choice(o->choices, text))
            return err_set(e, ERR_INVALID, "%s must be one of %s, not \"%s\"", shown, o->choices,
                           text);
        *(const char **)o->value = text;
        return 0;
    case OPT_LIST:
        return add_item(o->value, shown, text, from, e);
    case OPT_INT:
    case OPT_SIZE:
        return set_number(o, shown, text, e);
    }
    return 0;
}

static const struct opt *find(const struct opt *table, int count, const char *name, size_t len)
{
    for (int i = 0; i < count; i++)
        if (strlen(table[i].name) == len && strncmp(table[i].name, name, len) == 0)
            return &table[i];
    return NULL;
}

// "--templat": an error that names the option that may have been meant.
static int unknown_option(const struct opt *table, int count, const char *given, struct err *e)
{
    char *word auto_free = xstrndup(given + 2, strcspn(given + 2, "="));
    for (int i = 0; i < count; i++)
        if (str_is_near(word, table[i].name))
            return err_set(e, ERR_INVALID, "unknown option --%s; did you mean --%s?", word,
                           table[i].name);
    return err_set(e, ERR_INVALID, "unknown option %s; see --help", given);
}

static int parse_flag(const struct opt *table, int count, char **argv, int argc, int *at,
                      struct err *e)
{
    const char *name = argv[*at] + 2;
    const char *equals = strchr(name, '=');
    const struct opt *o = find(table, count, name, equals ? (size_t)(equals - name) : strlen(name));
    if (!o)
        return unknown_option(table, count, argv[*at], e);
    char *shown auto_free = str_printf("--%s", o->name);
    if (o->type == OPT_FLAG) {
        if (equals)
            return err_set(e, ERR_INVALID, "%s takes no value", shown);
        return set_value(o, shown, "1", OPT_FROM_FLAG, e);
    }
    if (!equals && *at + 1 >= argc)
        return err_set(e, ERR_INVALID, "%s needs a value: %s", shown, o->arg);
    return set_value(o, shown, equals ? equals + 1 : argv[++*at], OPT_FROM_FLAG, e);
}

int opts_parse(const struct opt *table, int count, int *argc, char **argv, bool stop_at_operand,
               struct err *e)
{
    for (int i = 0; i < count; i++) {
        const char *text = table[i].env ? getenv(table[i].env) : NULL;
        if (text && *text && set_value(&table[i], table[i].env, text, OPT_FROM_ENV, e) < 0)
            return -1;
    }
    int kept = 1;
    int at = 1;
    for (; at < *argc; at++) {
        if (strcmp(argv[at], "--") == 0) {
            at++;
            break;
        }
        if (strncmp(argv[at], "--", 2) == 0) {
            if (parse_flag(table, count, argv, *argc, &at, e) < 0)
                return -1;
        } else if (argv[at][0] == '-' && argv[at][1]) {
            return err_set(e, ERR_INVALID, "unknown option %s; see --help", argv[at]);
        } else {
            if (stop_at_operand)
                break;
            argv[kept++] = argv[at];
        }
    }
    while (at < *argc)
        argv[kept++] = argv[at++];
    *argc = kept;
    argv[kept] = NULL;
    return 0;
}

// ---- a file

// "max_streams" is --max-streams.
static const struct opt *find_key(const struct opt *table, int count, const char *key)
{
    char *name auto_free = xstrdup(key);
    if (strchr(name, '-'))
        return NULL;
    for (char *c = name; *c; c++)
        if (*c == '_')
            *c = '-';
    return find(table, count, name, strlen(name));
}

static int refuse(const struct opt *o, const char *shown, const json_t *value, struct err *e)
{
    static const char *const TAKES[] = {
        [OPT_FLAG] = "true or false",
        [OPT_STRING] = "a string that is not empty",
        [OPT_INT] = "a whole number",
        [OPT_LIST] = "an array of strings that are not empty",
        [OPT_SIZE] = "a number of bytes or a string such as \"512M\" or \"4G\"",
    };
    char *got auto_free = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    return err_set(e, ERR_INVALID, "%s must be %s, not %.60s", shown, TAKES[o->type], got);
}

static int load_list(const struct opt *o, const char *shown, const json_t *values, struct err *e)
{
    size_t i;
    json_t *one;
    json_array_foreach (values, i, one) {
        if (json_string_length(one) == 0)
            return refuse(o, shown, values, e);
        if (add_item(o->value, shown, json_string_value(one), OPT_FROM_FILE, e) < 0)
            return -1;
    }
    return 0;
}

static int load_value(const struct opt *o, const char *shown, const json_t *value, struct err *e)
{
    char number[24];
    bool is_text = json_string_length(value) > 0;
    if (json_is_integer(value) && (o->type == OPT_INT || o->type == OPT_SIZE)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        return set_number(o, shown, number, e);
    }
    if (is_text && (o->type == OPT_STRING || o->type == OPT_SIZE))
        return set_value(o, shown, json_string_value(value), OPT_FROM_FILE, e);
    if (json_is_array(value) && o->type == OPT_LIST)
        return load_list(o, shown, value, e);
    if (!json_is_boolean(value) || o->type != OPT_FLAG)
        return refuse(o, shown, value, e);
    *(bool *)o->value = json_is_true(value);
    return 0;
}

int opts_load(const struct opt *table, int count, const json_t *values, const char *file,
              struct err *e)
{
    const char *key;
    json_t *value;
    if (!json_is_object(values))
        return err_set(e, ERR_INVALID, "%s must be an object, {\"option\": value ...}", file);
    json_object_foreach ((json_t *)(uintptr_t)values, key, value) {
        const struct opt *o = find_key(table, count, key);
        char *shown auto_free = str_printf("%.200s: \"%.60s\"", file, key);
        if (!o && !str_eq(key, "$schema"))
            return err_set(e, ERR_INVALID,
                           "%s is not an option; allowed are the options of --help, with _ for -",
                           shown);
        if (o && load_value(o, shown, value, e) < 0)
            return -1;
    }
    return 0;
}

void opts_help(FILE *to, const struct opt *table, int count)
{
    for (int i = 0; i < count; i++) {
        const struct opt *o = &table[i];
        char *left auto_free = o->type == OPT_FLAG ? str_printf("--%s", o->name)
                                                   : str_printf("--%s %s", o->name, o->arg);
        fprintf(to, "  %-26s %s", left, o->help);
        if (o->env)
            fprintf(to, " [%s]", o->env);
        fputc('\n', to);
    }
}
