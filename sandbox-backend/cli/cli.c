// SPDX-License-Identifier: Apache-2.0
// Functions that the verbs of `cubby` share: the start of a verb, errors, text that is safe to
// show, options, tables.
#include "sandbox-backend/cli/cli.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"
#include "sandbox-backend/cli/connection.h"
#include "sandbox-backend/client/client.h"

static void show_help(const struct cli_usage *usage)
{
    printf("Usage: cubby %s\n\n%s\n", usage->synopsis, usage->text);
    if (usage->opt_count) {
        puts("\nOptions:");
        opts_help(stdout, usage->opts, usage->opt_count);
    }
    if (usage->server)
        puts("\nFor a remote server: --backend URL and others, see \"cubby help backend\".");
}

int cli_help_backend(void)
{
    struct backend_opts unused = {0};
    struct opt rows[BACKEND_OPTS_COUNT];
    backend_opts_table(rows, &unused);
    puts("Usage: cubby VERB [--backend URL] ...\n\n"
         "Every verb that uses sandboxes takes these options. Without them the verb uses the\n"
         "daemon of this host. [NAME] is the environment variable that is read instead.\n");
    opts_help(stdout, rows, ARRAY_LEN(rows));
    return 0;
}

// The verb's own options, and those of a backend.
static int parse(const struct cli_usage *usage, int *argc, char **argv, struct err *e)
{
    size_t own = (size_t)usage->opt_count;
    size_t count = own + (usage->server ? BACKEND_OPTS_COUNT : 0);
    struct opt *all auto_free = xcalloc(count + 1, sizeof *all);
    for (size_t i = 0; i < own; i++)
        all[i] = usage->opts[i];
    if (usage->server)
        backend_opts_table(all + own, usage->server);
    return opts_parse(all, (int)count, argc, argv, usage->stop_at_operand, e);
}

static bool wants_help(const struct cli_usage *usage, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
        if (usage->stop_at_operand && argv[i][0] != '-')
            break;
    }
    return false;
}

void cli_spell_out(int argc, char **argv, char *option)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-f") == 0)
            argv[i] = option;
}

int cli_begin(const struct cli_usage *usage, int *argc, char **argv)
{
    if (wants_help(usage, *argc, argv)) {
        show_help(usage);
        return 0;
    }
    struct err e = ERR_INIT;
    if (parse(usage, argc, argv, &e) < 0)
        return cli_usage_error("%s", e.msg);
    return -1;
}

static void add_safe(struct buf *out, const char *text)
{
    visible_add(out, text, strlen(text));
}

// In one write: stderr is not buffered, and other processes may write to it.
static void complain(const char *text)
{
    struct buf line auto_buf = BUF_INIT;
    buf_adds(&line, "cubby: ");
    add_safe(&line, text);
    buf_addc(&line, '\n');
    fputs(buf_str(&line), stderr);
}

int cli_fail(const struct err *e)
{
    complain(e->msg);
    return 1;
}

int cli_usage_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *text auto_free = str_vprintf(fmt, ap);
    va_end(ap);
    complain(text);
    return CLI_USAGE;
}

void cli_print_safe(FILE *to, const char *text)
{
    struct buf safe auto_buf = BUF_INIT;
    add_safe(&safe, text);
    fputs(buf_str(&safe), to);
}

void cli_print_line(const char *text)
{
    cli_print_safe(stdout, text);
    putchar('\n');
}

void cli_print_json(const json_t *value)
{
    char *text auto_free = json_to_string(value);
    char *safe auto_free = visible_json(text);
    puts(safe);
}

void cli_print_word(const char *name, const char *text, bool as_json)
{
    if (!as_json) {
        cli_print_line(text);
        return;
    }
    json_t *object = json_pack("{s:o}", name, json_lossy_string(text, strlen(text)));
    cli_print_json(object);
    json_decref(object);
}

const char *cli_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : "-";
}

char *cli_span(int64_t seconds)
{
    long long s = seconds > 0 ? seconds : 0;
    if (s < 60)
        return str_printf("%llds", s);
    if (s < 3600)
        return str_printf("%lldm%02llds", s / 60, s % 60);
    if (s < 86400)
        return str_printf("%lldh%02lldm", s / 3600, s / 60 % 60);
    return str_printf("%lldd%lldh", s / 86400, s / 3600 % 24);
}

// ---- options that several verbs share, as JSON

int pairs_parse(const struct opt_list *list, const char *option, json_t **out, struct err *e)
{
    *out = NULL;
    if (!list->count)
        return 0;
    json_t *object = json_object();
    for (int i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i]) {
            err_set(e, ERR_INVALID, "the value of %s must be NAME=VALUE, not \"%.80s\"", option,
                    list->items[i]);
            break;
        }
        char *name auto_free = xstrndup(list->items[i], (size_t)(equals - list->items[i]));
        if (json_object_set_new(object, name, json_string(equals + 1)) < 0)
            err_set(e, ERR_INVALID, "the value of %s must be UTF-8", option);
    }
    if (err_is(e)) {
        json_decref(object);
        return -1;
    }
    *out = object;
    return 0;
}

json_t *names_parse(const struct opt_list *list, const char *option, struct err *e)
{
    json_t *names = json_array();
    for (int i = 0; i < list->count; i++)
        if (json_array_append_new(names, json_string(list->items[i])) < 0)
            err_set(e, ERR_INVALID, "the value of %s must be UTF-8", option);
    if (err_is(e))
        json_decref(steal(&names));
    return names;
}

int network_opts_policy(const struct network_opts *o, json_t **out, struct err *e)
{
    json_t *allow = names_parse(&o->allow, "--allow", e);
    json_t *deny = names_parse(&o->deny, "--deny", e);
    *out = NULL;
    int rc = err_is(e) ? -1 : network_spec(out, o->what, allow, deny, e);
    json_decref(allow);
    json_decref(deny);
    return rc;
}

// ---- a table for people

void table_init(struct table *t, int columns)
{
    assert(columns <= TABLE_COLUMNS_MAX);
    *t = (struct table){.columns = columns};
}

void table_cell(struct table *t, const char *text)
{
    t->cells = xrealloc(t->cells, (size_t)(t->count + 1) * sizeof *t->cells);
    struct buf safe = BUF_INIT;
    add_safe(&safe, text);
    t->cells[t->count++] = safe.len ? buf_take(&safe) : xstrdup("");
}

void table_init_headed(struct table *t, const char *const *headings, int columns)
{
    table_init(t, columns);
    for (int i = 0; i < columns; i++)
        table_cell(t, headings[i]);
}

// Characters, as near to columns of a terminal as one gets without knowing its font.
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void table_print(const struct table *t, FILE *to)
{
    int width[TABLE_COLUMNS_MAX] = {0};
    for (int i = 0; i < t->count; i++) {
        int w = width_of(t->cells[i]);
        if (w > width[i % t->columns])
            width[i % t->columns] = w;
    }
    for (int i = 0; i < t->count; i++) {
        bool last = i % t->columns == t->columns - 1;
        int pad = last ? 0 : width[i % t->columns] - width_of(t->cells[i]) + 2;
        fprintf(to, "%s%*s%s", t->cells[i], pad, "", last ? "\n" : "");
    }
}

void table_fini(struct table *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->cells[i]);
    free(t->cells);
    *t = (struct table){0};
}
