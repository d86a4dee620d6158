// SPDX-License-Identifier: Apache-2.0
// What the verbs of `cubby` share: the head of a verb, its errors, text that is safe to show.
#include "sandbox-backend/cli/cli.h"

#include <stdarg.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/visible.h"

static void show_help(const struct cli_usage *usage)
{
    printf("Usage: cubby %s\n\n%s\n", usage->synopsis, usage->text);
    if (usage->opt_count) {
        puts("\nOptions:");
        opts_help(stdout, usage->opts, usage->opt_count);
    }
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

int cli_begin(const struct cli_usage *usage, int *argc, char **argv)
{
    if (wants_help(usage, *argc, argv)) {
        show_help(usage);
        return 0;
    }
    struct err e = ERR_INIT;
    if (opts_parse(usage->opts, usage->opt_count, argc, argv, usage->stop_at_operand, &e) < 0)
        return cli_usage_error("%s", e.msg);
    return -1;
}

// In one piece: stderr is not buffered, and others may write to it.
static void complain(const char *text)
{
    struct buf line auto_buf = BUF_INIT;
    buf_adds(&line, "cubby: ");
    cli_safe(&line, text);
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

void cli_safe(struct buf *out, const char *text)
{
    visible_add(out, text, strlen(text));
}

void cli_print_safe(FILE *to, const char *text)
{
    struct buf safe auto_buf = BUF_INIT;
    cli_safe(&safe, text);
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

const char *cli_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text && *text ? text : "-";
}
