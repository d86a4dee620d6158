// SPDX-License-Identifier: Apache-2.0
// A line of a record for people: what was done, and below it the output.
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/record/record_lines.h"

static const char *text(const json_t *line, const char *key)
{
    const char *value = json_string_value(json_object_get(line, key));
    return value ? value : "";
}

// ---- what was done

static const char *arg(const json_t *args, size_t i)
{
    const char *value = json_string_value(json_array_get(args, i));
    return value ? value : "";
}

// Return what a shell was asked to run, if nothing but that decides what it does; else NULL.
static const char *shell_text(const json_t *line)
{
    const json_t *args = json_object_get(line, "args");
    const char *cmd = text(line, "cmd");
    size_t count = json_array_size(args);
    if (!str_eq(cmd, "/bin/sh") && !str_eq(cmd, "/bin/bash"))
        return NULL;
    if (count == 2 && (str_eq(arg(args, 0), "-c") || str_eq(arg(args, 0), "-lc")))
        return arg(args, 1);
    if (count == 3 && str_eq(arg(args, 0), "-l") && str_eq(arg(args, 1), "-c"))
        return arg(args, 2);
    return NULL;
}

// A shell that runs one text is shown as this text alone.
static void add_command(struct buf *out, const json_t *line)
{
    const json_t *args = json_object_get(line, "args");
    const char *shown = shell_text(line);
    buf_printf(out, " %s", shown ? shown : text(line, "cmd"));
    for (size_t i = 0; !shown && i < json_array_size(args); i++) {
        char *word auto_free = str_shell_word(arg(args, i));
        buf_printf(out, " %s", word);
    }
}

static void add_members(struct buf *out, const json_t *line)
{
    static const char *const SHOWN[] = {"what",   "path",  "source",  "destination", "language",
                                        "signal", "pid",   "port",    "protocol",    "address",
                                        "name",   "why",   "message", "template",    "snapshot",
                                        "parent", "child", "timeout", "set_timeout", "snapshot_id",
                                        "error",  "bytes", "first",   "last",        "dropped",
                                        "cols",   "rows",  "http",    "fate"};
    for (size_t i = 0; i < ARRAY_LEN(SHOWN); i++) {
        const json_t *value = json_object_get(line, SHOWN[i]);
        bool is_bare = str_eq(SHOWN[i], "what") || str_eq(SHOWN[i], "path");
        const char *name = is_bare ? "" : SHOWN[i];
        if (json_is_string(value))
            buf_printf(out, " %s%s%s", name, is_bare ? "" : " ", json_string_value(value));
        else if (json_is_integer(value))
            buf_printf(out, " %s %lld", name, (long long)json_integer_value(value));
    }
    const json_t *paths = json_object_get(line, "paths");
    for (size_t i = 0; i < json_array_size(paths); i++)
        buf_printf(out, " %s", json_string_value(json_array_get(paths, i)));
}

static void add_end(struct buf *out, const json_t *line)
{
    const json_t *exit = json_object_get(line, "exit");
    buf_printf(out, " of %lld:", (long long)json_integer_value(json_object_get(line, "of")));
    if (exit)
        buf_printf(out, " %s", text(line, "status"));
    if (*text(line, "fate"))
        buf_printf(out, " %s", text(line, "fate"));
    if (*text(line, "error"))
        buf_printf(out, " %s", text(line, "error"));
    buf_printf(out, " [%lld ms", (long long)json_integer_value(json_object_get(line, "ms")));
    static const char *const SIZES[] = {"in", "out", "err"};
    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++) {
        json_int_t bytes = json_integer_value(json_object_get(line, SIZES[i]));
        if (bytes)
            buf_printf(out, ", %s %lld B", SIZES[i], (long long)bytes);
    }
    buf_addc(out, ']');
}

static void add_figure(struct buf *out, const json_t *line)
{
    buf_printf(out, " of %lld: %s", (long long)json_integer_value(json_object_get(line, "of")),
               text(line, "type"));
    if (*text(line, "why"))
        buf_printf(out, ", not kept: %s", text(line, "why"));
    else
        buf_printf(out, ", %lld B", (long long)json_integer_value(json_object_get(line, "bytes")));
}

static void add_who(struct buf *out, const json_t *line)
{
    const char *who = text(line, "who");
    const char *user = text(line, "user");
    if (*who)
        buf_printf(out, " (%s%s%s%s%s)", who, *user ? ", as " : "", user,
                   *text(line, "cwd") ? ", in " : "", text(line, "cwd"));
}

// ---- its output

static void print_output(const char *output, const char *mark)
{
    while (*output) {
        size_t len = strcspn(output, "\n");
        char *shown auto_free = str_printf("    %s %.*s", mark, (int)len, output);
        cli_print_line(shown);
        output += len + (output[len] == '\n');
    }
}

void record_show_line(const json_t *line)
{
    struct buf out auto_buf = BUF_INIT;
    const char *kind = text(line, "kind");
    if (str_eq(kind, "screen") || str_eq(kind, "head"))
        return;
    buf_printf(&out, "%s %4lld %s", text(line, "at"),
               (long long)json_integer_value(json_object_get(line, "n")), kind);
    if (str_eq(kind, "end")) {
        add_end(&out, line);
    } else if (str_eq(kind, "figure")) {
        add_figure(&out, line);
    } else {
        if (str_eq(kind, "command") || str_eq(kind, "terminal"))
            add_command(&out, line);
        add_members(&out, line);
        if (json_is_true(json_object_get(line, "others")))
            buf_adds(&out, " and others");
        add_who(&out, line);
    }
    cli_print_line(buf_str(&out));
    print_output(text(line, "code"), ">");
    print_output(text(line, "stdout"), "|");
    print_output(text(line, "stderr"), "!");
    print_output(text(line, "result"), "=");
    if (json_is_true(json_object_get(line, "cut")))
        cli_print_line("    ...");
}
