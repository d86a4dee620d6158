// SPDX-License-Identifier: Apache-2.0
// cubby setup: adds a block to a YAML file.
//
// The reader goes through the whole file, knows the part of YAML that programs write, and refuses
// the rest: tabs, several documents, anchors, tags, and values that go on in the next line, except
// text after "|" or ">". A value in brackets or braces must be JSON. The new block goes right below
// the line of its section, and the result must be readable too.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/setup/lines.h"
#include "sandbox-backend/cli/setup/setup.h"

#define DEPTH_MAX  32
#define NEW_INDENT 2

// A map or list that the current line may continue.
struct level {
    size_t column; // of its keys or dashes
    bool is_list;
    bool waits;   // its last item has no value yet, so a nested block may follow
    json_t *keys; // owned: of a map
};

struct yaml {
    const char *text, *at, *line;
    struct level levels[DEPTH_MAX + 1]; // the first one stands for the file
    size_t depth;
    const char *section;
    bool is_section;   // the last key at the top was the section's
    const char *block; // where the block below the section begins; NULL: no section
    size_t indent;     // of the block; 0: it is empty
    const char *entry; // the line of the entry; NULL: it has none
    struct err *e;
};

static int fail(struct yaml *y, const char *what)
{
    return lines__fail(y->text, y->line, what, y->e);
}

static struct level *top(struct yaml *y)
{
    return &y->levels[y->depth];
}

static size_t line_length(const char *line)
{
    return strcspn(line, "\r\n");
}

static const char *next_line(const char *line)
{
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

// Tell whether nothing but blanks and a comment follows, up to the end of the line. A comment has a
// blank before it.
static bool is_rest_empty(const char *at)
{
    size_t blanks = strspn(at, " ");
    return !line_length(at + blanks) || (blanks && at[blanks] == '#');
}

// ---- maps and lists

static void pop(struct yaml *y)
{
    json_decref(top(y)->keys);
    y->depth--;
}

static int push(struct yaml *y, size_t column, bool is_list)
{
    if (y->depth == DEPTH_MAX)
        return fail(y, "it is nested too deeply");
    top(y)->waits = false;
    if (y->depth == 1 && y->is_section) {
        if (is_list)
            return fail(y, "the section is a list");
        y->indent = column;
    }
    y->levels[++y->depth] =
        (struct level){.column = column, .is_list = is_list, .keys = json_object()};
    return 0;
}

// Find the map or list that has a key or dash in this column.
static int enter(struct yaml *y, size_t column, bool is_list)
{
    if (!y->depth)
        return column || is_list ? fail(y, "it does not begin with a name in the first column")
                                 : push(y, 0, false);
    while (y->depth > 1 && top(y)->column > column)
        pop(y);
    struct level *l = top(y);
    if (l->column < column)
        return l->waits ? push(y, column, is_list) : fail(y, "its indent does not fit");
    if (l->is_list == is_list)
        return 0;
    // A list may be as far in as the name that it belongs to.
    if (is_list)
        return l->waits ? push(y, column, true) : fail(y, "a list has no name");
    pop(y);
    l = top(y);
    return y->depth && l->column == column && !l->is_list ? 0 : fail(y, "its indent does not fit");
}

// ---- values

// Return the end of a string in quotes; NULL: it has none in this line, or a rare escape.
static const char *string_end(const char *at)
{
    char quote = *at++;
    for (; *at && *at != '\n' && *at != '\r'; at++) {
        if (quote == '\'' && at[0] == '\'' && at[1] == '\'')
            at++;
        else if (*at == quote)
            return at + 1;
        else if (quote == '"' && *at == '\\' && (!at[1] || !strchr("\\\"ntr", *++at)))
            return NULL;
    }
    return NULL;
}

// Return the end of a JSON value in this line; NULL: it has none, or has escapes.
static const char *json_end(const char *at)
{
    json_error_t why;
    json_t *value =
        json_loadb(at, line_length(at), JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &why);
    json_decref(value);
    const char *end = value ? at + why.position : NULL;
    return end && !memchr(at, '\\', (size_t)(end - at)) ? end : NULL;
}

// Skip the lines of a text after "|" or ">". All are as far in as the first one, or farther.
static int skip_text(struct yaml *y)
{
    size_t indent = 0;
    for (; *y->at; y->at = next_line(y->at)) {
        size_t lead = strspn(y->at, " ");
        bool is_blank = !line_length(y->at + lead);
        if (!is_blank && lead <= top(y)->column)
            return 0;
        y->line = y->at;
        if (!indent && !is_blank)
            indent = lead;
        if (is_blank ? lead > indent : lead < indent)
            return fail(y, "its indent does not fit");
    }
    // An end of line that is added here would belong to the text.
    return y->at[-1] == '\n' ? 0 : fail(y, "a text has no end of line");
}

// Return the end of a value without quotes; NULL: it may mean something else.
static const char *plain_end(const char *at)
{
    bool is_dash = *at == '-' && isalnum((unsigned char)at[1]);
    if (!isalnum((unsigned char)*at) && !strchr("_/.~+($", *at) && !is_dash && !(*at & 0x80))
        return NULL;
    const char *end = at + line_length(at);
    for (const char *c = at; c < end; c++) {
        if (c[0] == ':' && (c[1] == ' ' || c + 1 == end))
            return NULL;
        if (c[0] == ' ' && c[1] == '#')
            return c;
    }
    return end;
}

// Read what follows a name or a dash.
static int read_value(struct yaml *y)
{
    const char *at = y->at + strspn(y->at, " ");
    const char *end = NULL;
    top(y)->waits = is_rest_empty(y->at);
    if (top(y)->waits) {
        y->at = next_line(y->at);
        return 0;
    }
    bool is_text = *at == '|' || *at == '>';
    if (is_text)
        end = at + 1 + (at[1] == '-' || at[1] == '+');
    else if (*at == '"' || *at == '\'')
        end = string_end(at);
    else if (*at == '[' || *at == '{')
        end = json_end(at);
    else
        end = plain_end(at);
    if (!end || !is_rest_empty(end))
        return fail(y, "its value is not understood");
    y->at = next_line(end);
    return is_text ? skip_text(y) : 0;
}

// ---- lines

// Find a name and its colon at the start of `at`. Return a new string, or NULL. *rest: after them.
static char *find_name(const char *at, const char **rest)
{
    const char *from = at, *end = NULL;
    bool is_quoted = *at == '"' || *at == '\'';
    if (is_quoted) {
        const char *close = string_end(at);
        end = close ? close - 1 : NULL;
        from++;
        if (!end || memchr(from, '\\', (size_t)(end - from)) ||
            memchr(from, *at, (size_t)(end - from)))
            return NULL;
    } else if (isalnum((unsigned char)*at) || *at == '_') {
        end = at + strcspn(at, ":\r\n\"'#&*!|>%@`,[]{}?");
    }
    const char *colon = end ? end + is_quoted : NULL;
    colon += colon ? strspn(colon, " ") : 0;
    if (!colon || *colon != ':' || (colon[1] != ' ' && line_length(colon + 1)))
        return NULL;
    while (!is_quoted && end[-1] == ' ')
        end--;
    *rest = colon + 1;
    return xstrndup(from, (size_t)(end - from));
}

// Note where the section and the entry are.
static void note(struct yaml *y, const char *name)
{
    if (y->depth == 1) {
        y->is_section = str_eq(name, y->section);
        if (y->is_section)
            y->block = next_line(y->at);
    } else if (y->depth == 2 && y->is_section && str_eq(name, ENTRY_NAME)) {
        y->entry = y->line;
    }
}

static int read_pair(struct yaml *y, size_t column)
{
    char *name auto_free = find_name(y->at, &y->at);
    if (!name)
        return fail(y, "it is not understood");
    if (enter(y, column, false) < 0)
        return -1;
    if (json_object_get(top(y)->keys, name))
        return fail(y, "it has a name a second time");
    json_object_set_new(top(y)->keys, name, json_true());
    note(y, name);
    if (y->depth == 1 && y->is_section && !is_rest_empty(y->at))
        return fail(y, "the section is not a block of lines");
    return read_value(y);
}

static int read_line(struct yaml *y)
{
    y->line = y->at;
    size_t column = strspn(y->at, " ");
    const char *unused = NULL;
    if (!line_length(y->at + column) || y->at[column] == '#') {
        y->at = next_line(y->at);
        return 0;
    }
    if (str_starts(y->at, "---") || str_starts(y->at, "...") || *y->at == '%')
        return fail(y, "it has several documents");
    y->at += column;
    bool is_item = false;
    while (*y->at == '-' && (y->at[1] == ' ' || !line_length(y->at + 1))) {
        if (enter(y, column, true) < 0)
            return -1;
        y->at++;
        if (is_rest_empty(y->at))
            return read_value(y);
        size_t blanks = strspn(y->at, " ");
        column += 1 + blanks;
        y->at += blanks;
        top(y)->waits = is_item = true;
    }
    char *name auto_free = is_item ? find_name(y->at, &unused) : NULL;
    return is_item && !name ? read_value(y) : read_pair(y, column);
}

static int read_file(struct yaml *y)
{
    if (lines__check(y->text, y->e) < 0)
        return -1;
    y->line = strchr(y->text, '\t');
    if (y->line)
        return fail(y, "it has a tab");
    int result = 0;
    for (y->at = y->text; result == 0 && *y->at;)
        result = read_line(y);
    while (y->depth)
        pop(y);
    return result;
}

// ---- the edit

static void add_block(struct buf *out, size_t indent, json_t *entry)
{
    const char *key = NULL;
    json_t *value = NULL;
    buf_printf(out, "%*s%s:\n", (int)indent, "", ENTRY_NAME);
    json_object_foreach (entry, key, value) {
        char *text auto_free = json_dumps(value, JSON_ENCODE_ANY);
        buf_printf(out, "%*s%s: %s\n", (int)indent + NEW_INDENT, "", key, text);
    }
}

// Read the text. `wanted` gets the block to add. Return 1 if it is there, 0 if there is no entry.
static int look(struct yaml *y, json_t *entry, struct buf *wanted)
{
    if (read_file(y) < 0)
        return -1;
    add_block(wanted, y->indent ? y->indent : NEW_INDENT, entry);
    if (!y->entry)
        return 0;
    if (str_starts(y->entry, buf_str(wanted)))
        return 1;
    y->line = y->entry;
    return fail(y, "it has another entry of the name \"" ENTRY_NAME "\"");
}

int edit_yaml(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e)
{
    struct buf added auto_buf = BUF_INIT;
    struct buf again auto_buf = BUF_INIT;
    struct yaml y = {.text = text, .section = section, .e = e};
    int found = look(&y, entry, &added);
    if (found < 0)
        return -1;
    if (found) {
        buf_adds(out, text);
        return 0;
    }
    const char *block = y.block ? y.block : text + strlen(text);
    buf_add(out, text, (size_t)(block - text));
    lines__end(out);
    if (!y.block)
        buf_printf(out, "%s:\n", section);
    buf_add(out, added.data, added.len);
    buf_adds(out, block);
    struct yaml after = {.text = buf_str(out), .section = section, .e = e};
    if (look(&after, entry, &again) == 1)
        return 0;
    return err_set(e, ERR_INVALID, "the new file would not be valid");
}
