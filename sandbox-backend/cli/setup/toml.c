// SPDX-License-Identifier: Apache-2.0
// cubby setup: adds a table to a TOML file.
//
// The reader goes through the whole file, knows a part of TOML 1.0, and refuses the rest: strings
// of several lines, escapes in names, dates and unusual numbers. It notes how each name is defined,
// so it finds what is defined twice, and every way to define the section or the entry. The new
// table goes to the end of the file, and the result must be readable too.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/setup/lines.h"
#include "sandbox-backend/cli/setup/setup.h"

#define DEPTH_MAX 16
#define BETWEEN   "\x1f" // the names of a path; no name has this character
#define NUMBER    "\x1e" // before the number of a table in a list

enum kind { NONE, IMPLIED, HEADER, DOTTED, VALUE, LIST };

struct toml {
    const char *text, *at;
    char *table;  // owned: the path of the table that the lines belong to
    json_t *kind; // owned: of each path
    json_int_t tables;
    const char *entry_path, *entry; // the line of the entry's header; NULL: it has none
    struct err *e;
};

static int fail(struct toml *t, const char *what)
{
    return lines__fail(t->text, t->at, what, t->e);
}

static void skip_blanks(struct toml *t)
{
    t->at += strspn(t->at, " \t");
}

static enum kind kind_of(const struct toml *t, const char *path)
{
    return (enum kind)json_integer_value(json_object_get(t->kind, path));
}

static void set_kind(struct toml *t, const char *path, enum kind kind)
{
    json_object_set_new(t->kind, path, json_integer(kind));
}

// Read what may follow a value or a header in its line.
static int read_end(struct toml *t)
{
    skip_blanks(t);
    if (*t->at == '#')
        t->at += strcspn(t->at, "\n");
    t->at += *t->at == '\r';
    if (*t->at && *t->at != '\n')
        return fail(t, "it is not understood");
    t->at += *t->at == '\n';
    return 0;
}

// ---- names

// Read a name. Return a new string, or NULL.
static char *read_name(struct toml *t)
{
    static const char BARE[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    char quote = *t->at;
    if (quote != '"' && quote != '\'') {
        size_t len = strspn(t->at, BARE);
        t->at += len;
        if (len)
            return xstrndup(t->at - len, len);
        fail(t, "it does not begin with a name");
        return NULL;
    }
    size_t len = strcspn(t->at + 1, quote == '"' ? "\"\\\n" : "'\n");
    if (t->at[1 + len] != quote) {
        fail(t, "a name in quotes has an escape or no end");
        return NULL;
    }
    t->at += len + 2;
    return xstrndup(t->at - len - 1, len);
}

// Go from a table to one of its members, which is not the last name of its line. *path is replaced.
static int step(struct toml *t, char **path, const char *name, bool is_header)
{
    char *next auto_free = str_printf("%s" BETWEEN "%s", *path, name);
    enum kind kind = kind_of(t, next);
    bool fits = is_header ? kind == IMPLIED || kind == HEADER || kind == LIST : kind == DOTTED;
    if (kind != NONE && !fits)
        return fail(t, "it adds to a table that is defined in another form");
    if (kind == NONE)
        set_kind(t, next, is_header ? IMPLIED : DOTTED);
    free(*path);
    *path = steal(&next);
    if (kind != LIST)
        return 0;
    char *count auto_free = str_printf("%s" NUMBER, *path);
    json_int_t last = json_integer_value(json_object_get(t->kind, count));
    free(*path);
    *path = str_printf("%s%lld", count, (long long)last);
    return 0;
}

// Read names with dots between them, below the table `from`. Return the path, whose last name is
// not noted yet; NULL with an error.
static char *read_path(struct toml *t, const char *from, bool is_header)
{
    char *path auto_free = xstrdup(from);
    for (;;) {
        skip_blanks(t);
        char *name auto_free = read_name(t);
        if (!name)
            return NULL;
        skip_blanks(t);
        if (*t->at != '.')
            return str_printf("%s" BETWEEN "%s", path, name);
        t->at++;
        if (step(t, &path, name, is_header) < 0)
            return NULL;
    }
}

// ---- values

static int read_value(struct toml *t, const char *path, int depth);

static int read_pair(struct toml *t, const char *from, int depth)
{
    char *path auto_free = read_path(t, from, false);
    if (!path)
        return -1;
    if (*t->at != '=')
        return fail(t, "a name has no value");
    if (kind_of(t, path) != NONE)
        return fail(t, "it defines a name a second time");
    set_kind(t, path, VALUE);
    t->at++;
    skip_blanks(t);
    return read_value(t, path, depth);
}

static bool is_hex(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return true;
}

// Return the length of the escape after a backslash; 0: there is none, or a rare one.
static size_t escape_length(const char *text)
{
    if (*text && strchr("btnfr\"\\", *text))
        return 1;
    // A half of a surrogate pair is no character.
    return *text == 'u' && is_hex(text + 1, 4) && tolower((unsigned char)text[1]) != 'd' ? 5 : 0;
}

static int read_string(struct toml *t)
{
    char quote = *t->at;
    if (t->at[1] == quote && t->at[2] == quote)
        return fail(t, "it has a string of several lines");
    for (t->at++; *t->at != quote; t->at++) {
        size_t escape = quote == '"' && *t->at == '\\' ? escape_length(t->at + 1) : 0;
        if (!*t->at || *t->at == '\n' || *t->at == '\r')
            return fail(t, "a string has no end");
        if (quote == '"' && *t->at == '\\' && !escape)
            return fail(t, "a string has an escape that is not known");
        t->at += escape;
    }
    t->at++;
    return 0;
}

// Skip blanks, comments and ends of lines in a list.
static int skip_lines(struct toml *t)
{
    for (;;) {
        skip_blanks(t);
        if (*t->at != '#' && *t->at != '\r' && *t->at != '\n')
            return *t->at ? 0 : fail(t, "a list has no end");
        if (read_end(t) < 0)
            return -1;
    }
}

static int read_list(struct toml *t, int depth)
{
    t->at++;
    for (bool more = true;;) {
        if (skip_lines(t) < 0)
            return -1;
        if (*t->at == ']')
            break;
        if (!more)
            return fail(t, "a comma is missing");
        char *path auto_free = str_printf(NUMBER NUMBER "%lld", (long long)++t->tables);
        if (read_value(t, path, depth + 1) < 0 || skip_lines(t) < 0)
            return -1;
        more = *t->at == ',';
        t->at += more;
    }
    t->at++;
    return 0;
}

static int read_inline_table(struct toml *t, const char *path, int depth)
{
    t->at++;
    skip_blanks(t);
    for (bool more = *t->at != '}'; more; t->at += more) {
        if (read_pair(t, path, depth + 1) < 0)
            return -1;
        skip_blanks(t);
        more = *t->at == ',';
    }
    if (*t->at != '}')
        return fail(t, "a table has no end");
    t->at++;
    return 0;
}

// Tell whether a word is true, false or a usual number.
static bool is_plain(const char *word)
{
    if (str_eq(word, "true") || str_eq(word, "false"))
        return true;
    const char *digits = word + (*word == '-' || *word == '+');
    size_t whole = strspn(digits, "0123456789");
    const char *rest = digits + whole;
    if (!whole || (whole > 1 && *digits == '0'))
        return false;
    return !*rest || (*rest == '.' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")]);
}

static int read_value(struct toml *t, const char *path, int depth)
{
    if (depth > DEPTH_MAX)
        return fail(t, "it is nested too deeply");
    if (*t->at == '"' || *t->at == '\'')
        return read_string(t);
    if (*t->at == '[')
        return read_list(t, depth);
    if (*t->at == '{')
        return read_inline_table(t, path, depth);
    size_t len = strcspn(t->at, " \t\r\n#,]}");
    char *word auto_free = xstrndup(t->at, len);
    if (!is_plain(word))
        return fail(t, "its value is not understood");
    t->at += len;
    return 0;
}

// ---- tables

// Make a header's table the current one.
static int open_table(struct toml *t, const char *path, bool is_list)
{
    enum kind kind = kind_of(t, path);
    bool fits = is_list ? kind == NONE || kind == LIST : kind == NONE || kind == IMPLIED;
    if (!fits)
        return fail(t, "it defines a table a second time");
    set_kind(t, path, is_list ? LIST : HEADER);
    free(t->table);
    t->table = xstrdup(path);
    if (is_list) {
        char *count auto_free = str_printf("%s" NUMBER, path);
        json_int_t number = json_integer_value(json_object_get(t->kind, count)) + 1;
        json_object_set_new(t->kind, count, json_integer(number));
        free(t->table);
        t->table = str_printf("%s%lld", count, (long long)number);
    }
    return 0;
}

static int read_header(struct toml *t)
{
    const char *line = t->at;
    bool is_list = t->at[1] == '[';
    t->at += is_list ? 2 : 1;
    char *path auto_free = read_path(t, "", true);
    if (!path)
        return -1;
    if (!str_starts(t->at, is_list ? "]]" : "]"))
        return fail(t, "a header has no end");
    t->at += is_list ? 2 : 1;
    if (open_table(t, path, is_list) < 0)
        return -1;
    if (!is_list && str_eq(path, t->entry_path))
        t->entry = line;
    return 0;
}

static int read_line(struct toml *t)
{
    skip_blanks(t);
    bool is_header = *t->at == '[', is_pair = *t->at && !strchr("[#\r\n", *t->at);
    if ((is_header && read_header(t) < 0) || (is_pair && read_pair(t, t->table, 0) < 0))
        return -1;
    return read_end(t);
}

static int read_file(struct toml *t)
{
    if (lines__check(t->text, t->e) < 0)
        return -1;
    for (t->at = t->text; *t->at;)
        if (read_line(t) < 0)
            return -1;
    return 0;
}

static void close_file(struct toml *t)
{
    json_decref(t->kind);
    free(t->table);
}

// ---- the edit

// Append a value. A table in one line has other signs than an object of JSON.
static void add_value(struct buf *out, json_t *value)
{
    const char *key = NULL;
    json_t *member = NULL;
    if (!json_is_object(value)) {
        char *text auto_free = json_dumps(value, JSON_ENCODE_ANY);
        buf_adds(out, text);
        return;
    }
    const char *before = "{ ";
    json_object_foreach (value, key, member) {
        buf_printf(out, "%s%s = ", before, key);
        add_value(out, member);
        before = ", ";
    }
    buf_adds(out, " }");
}

static void add_table(struct buf *out, const char *section, json_t *entry)
{
    const char *key = NULL;
    json_t *value = NULL;
    buf_printf(out, "[%s.%s]\n", section, ENTRY_NAME);
    json_object_foreach (entry, key, value) {
        buf_printf(out, "%s = ", key);
        add_value(out, value);
        buf_addc(out, '\n');
    }
}

// Tell whether the file has the wanted table: 1, no entry: 0, or anything else: -1 with an error.
static int find_entry(struct toml *t, const char *section, const char *wanted)
{
    char *parent auto_free = str_printf(BETWEEN "%s", section);
    enum kind of_parent = kind_of(t, parent), of_entry = kind_of(t, t->entry_path);
    if (of_parent != NONE && of_parent != IMPLIED)
        return err_set(t->e, ERR_INVALID, "it does not have a table for each server");
    if (t->entry && str_starts(t->entry, wanted))
        return 1;
    if (t->entry)
        t->at = t->entry;
    if (of_entry != NONE)
        return t->entry ? fail(t, "it has another entry of the name \"" ENTRY_NAME "\"")
                        : err_set(t->e, ERR_INVALID,
                                  "it has another entry of the name \"" ENTRY_NAME "\"");
    return 0;
}

// Read the text and look for the entry.
static int look(const char *text, const char *section, const char *wanted, struct err *e)
{
    char *path auto_free = str_printf(BETWEEN "%s" BETWEEN ENTRY_NAME, section);
    struct toml t = {
        .text = text, .table = xstrdup(""), .kind = json_object(), .entry_path = path, .e = e};
    int found = read_file(&t) < 0 ? -1 : find_entry(&t, section, wanted);
    close_file(&t);
    return found;
}

int edit_toml(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e)
{
    struct buf table auto_buf = BUF_INIT;
    add_table(&table, section, entry);
    int found = look(text, section, buf_str(&table), e);
    if (found < 0)
        return -1;
    buf_adds(out, text);
    if (found)
        return 0;
    lines__end(out);
    if (out->len)
        buf_addc(out, '\n');
    buf_add(out, table.data, table.len);
    if (look(buf_str(out), section, buf_str(&table), e) == 1)
        return 0;
    return err_set(e, ERR_INVALID, "the new file would not be valid");
}
