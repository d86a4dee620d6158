// SPDX-License-Identifier: Apache-2.0
// cubby setup: adds an entry to a TOML or YAML file. Both editors know only the usual form of such
// a file, look at whole lines, and refuse any other form.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/setup/setup.h"

// Return the line after `line`; NULL: there is none.
static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end && end[1] ? end + 1 : NULL;
}

static size_t line_length(const char *line)
{
    return strcspn(line, "\r\n");
}

// Return the line without blanks at both ends. New string.
static char *trimmed(const char *line)
{
    size_t len = line_length(line);
    size_t lead = strspn(line, " \t");
    lead = lead < len ? lead : len;
    while (len > lead && strchr(" \t", line[len - 1]))
        len--;
    return xstrndup(line + lead, len - lead);
}

static void end_line(struct buf *out)
{
    if (out->len && out->data[out->len - 1] != '\n')
        buf_addc(out, '\n');
}

// JSON's strings and lists of strings are also TOML's and YAML's.
static char *inline_value(const json_t *value)
{
    return json_dumps(value, JSON_ENCODE_ANY);
}

// ---- TOML

static void add_table(struct buf *out, const char *section, json_t *entry)
{
    const char *key = NULL;
    json_t *value = NULL;
    buf_printf(out, "[%s.%s]\n", section, ENTRY_NAME);
    json_object_foreach (entry, key, value) {
        char *text auto_free = inline_value(value);
        buf_printf(out, "%s = %s\n", key, text);
    }
}

// Return whether a line gives the section a value in another way than as a table of its own.
static bool is_other_form(const char *line, const char *section)
{
    size_t len = strlen(section);
    if (line[0] == '[' || !str_starts(line, section))
        return false;
    return line[len] == '.' || line[len + strspn(line + len, " \t")] == '=';
}

int edit_toml(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e)
{
    struct buf table auto_buf = BUF_INIT;
    char *head auto_free = str_printf("[%s.%s]", section, ENTRY_NAME);
    char *parent auto_free = str_printf("[%s]", section);
    add_table(&table, section, entry);
    for (const char *at = *text ? text : NULL; at; at = next_line(at)) {
        char *line auto_free = trimmed(at);
        if (strstr(line, "\"\"\"") || strstr(line, "'''"))
            return err_set(e, ERR_INVALID, "it has strings of several lines");
        if (is_other_form(line, section) || str_eq(line, parent))
            return err_set(e, ERR_INVALID, "it does not have a table for each server");
        if (!str_starts(line, head))
            continue;
        if (!str_starts(at, buf_str(&table)))
            return err_set(e, ERR_INVALID, "it has another entry of the name \"%s\"", ENTRY_NAME);
        buf_adds(out, text);
        return 0;
    }
    buf_adds(out, text);
    end_line(out);
    if (out->len)
        buf_addc(out, '\n');
    buf_add(out, table.data, table.len);
    return 0;
}

// ---- YAML

// Return where the block below the line `section:` begins; NULL with `e` in another form. *found:
// there is such a line.
static const char *find_block(const char *text, const char *section, bool *found, struct err *e)
{
    char *head auto_free = str_printf("%s:", section);
    *found = false;
    for (const char *at = *text ? text : NULL; at; at = next_line(at)) {
        if (memchr(at, '\t', line_length(at)) || str_starts(at, "---") || str_starts(at, "{")) {
            err_set(e, ERR_INVALID, "it has tabs, several documents or braces");
            return NULL;
        }
        if (!str_starts(at, head))
            continue;
        const char *rest = at + strlen(head);
        rest += strspn(rest, " ");
        if (*found || (line_length(rest) && *rest != '#')) {
            err_set(e, ERR_INVALID, "\"%s\" is not a block of lines there", section);
            return NULL;
        }
        *found = true;
        const char *end = strchr(at, '\n');
        return end ? end + 1 : at + strlen(at);
    }
    return text + strlen(text);
}

// Return how far in the first line of a block is; 0: the block is empty.
static size_t block_indent(const char *block)
{
    for (const char *at = *block ? block : NULL; at; at = next_line(at)) {
        size_t lead = strspn(at, " ");
        if (line_length(at) > lead && at[lead] != '#')
            return lead;
    }
    return 0;
}

static void add_block(struct buf *out, size_t indent, json_t *entry)
{
    const char *key = NULL;
    json_t *value = NULL;
    buf_printf(out, "%*s%s:\n", (int)indent, "", ENTRY_NAME);
    json_object_foreach (entry, key, value) {
        char *text auto_free = inline_value(value);
        buf_printf(out, "%*s%s: %s\n", (int)indent + 2, "", key, text);
    }
}

// Look for the entry in its block. Return 1 if it is there and is the same, 0 if it is not there.
static int find_entry(const char *block, size_t indent, const char *wanted, struct err *e)
{
    char *head auto_free = str_printf("%*s%s:", (int)indent, "", ENTRY_NAME);
    for (const char *at = *block && indent ? block : NULL; at; at = next_line(at)) {
        size_t lead = strspn(at, " ");
        if (line_length(at) > lead && lead < indent && at[lead] != '#')
            return 0;
        if (!str_starts(at, head))
            continue;
        if (str_starts(at, wanted))
            return 1;
        return err_set(e, ERR_INVALID, "it has another entry of the name \"%s\"", ENTRY_NAME);
    }
    return 0;
}

int edit_yaml(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e)
{
    bool found = false;
    struct buf added auto_buf = BUF_INIT;
    const char *block = find_block(text, section, &found, e);
    if (!block)
        return -1;
    size_t indent = found ? block_indent(block) : 0;
    add_block(&added, indent ? indent : 2, entry);
    int there = found ? find_entry(block, indent, buf_str(&added), e) : 0;
    if (there < 0)
        return -1;
    buf_add(out, text, (size_t)(block - text));
    if (there) {
        buf_adds(out, block);
        return 0;
    }
    end_line(out);
    if (!found)
        buf_printf(out, "%s:\n", section);
    buf_add(out, added.data, added.len);
    buf_adds(out, block);
    return 0;
}
