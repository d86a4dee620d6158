// SPDX-License-Identifier: Apache-2.0
// Command-line options as one table: flag, environment, default, help.
#include "sandbox-backend/base/opts.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

static bool is_choice(const char *choices, const char *value)
{
    size_t n = strcspn(value, "|");
    if (value[n]) // two of them are not one
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

static int set_number(const struct opt *o, const char *shown, const char *text, struct err *e)
{
    int64_t v = 0;
    bool ok =
        o->type == OPT_SIZE ? parse_size(text, &v) : str_to_int(text, INT64_MIN, INT64_MAX, &v);
    if (!ok)
        return err_set(e, ERR_INVALID, "%s takes a %s, not \"%s\"", shown,
                       o->type == OPT_SIZE ? "size such as 512M or 4G" : "whole number", text);
    if ((o->min || o->max) && (v < o->min || v > o->max))
        return err_set(e, ERR_INVALID, "%s must be from %lld to %lld, not %s", shown,
                       (long long)o->min, (long long)o->max, text);
    *(int64_t *)o->value = v;
    return 0;
}

static int set_value(const struct opt *o, const char *shown, const char *text, struct err *e)
{
    struct opt_list *list = o->value;
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
        if (list->count == OPT_LIST_MAX)
            return err_set(e, ERR_INVALID, "%s is given more than %d times", shown, OPT_LIST_MAX);
        list->items[list->count++] = text;
        return 0;
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

static int parse_flag(const struct opt *table, int count, char **argv, int argc, int *at,
                      struct err *e)
{
    const char *name = argv[*at] + 2;
    const char *equals = strchr(name, '=');
    const struct opt *o = find(table, count, name, equals ? (size_t)(equals - name) : strlen(name));
    if (!o)
        return err_set(e, ERR_INVALID, "unknown option %s; see --help", argv[*at]);
    char *shown auto_free = str_printf("--%s", o->name);
    if (o->type == OPT_FLAG) {
        if (equals)
            return err_set(e, ERR_INVALID, "%s takes no value", shown);
        return set_value(o, shown, "1", e);
    }
    if (!equals && *at + 1 >= argc)
        return err_set(e, ERR_INVALID, "%s needs a value: %s", shown, o->arg);
    return set_value(o, shown, equals ? equals + 1 : argv[++*at], e);
}

int opts_parse(const struct opt *table, int count, int *argc, char **argv, bool stop_at_operand,
               struct err *e)
{
    for (int i = 0; i < count; i++) {
        const char *text = table[i].env ? getenv(table[i].env) : NULL;
        if (text && *text && set_value(&table[i], table[i].env, text, e) < 0)
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
