// SPDX-License-Identifier: Apache-2.0
// cubby setup: adds an entry to a JSON file with comments, and changes no other byte.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/setup/setup.h"

#define DEPTH_MAX JSON_DEPTH_MAX

// The reader walks over the text once, and writes a copy without comments and trailing commas. It
// notes where the parts are that an edit needs.
struct place {
    bool found;
    size_t start, end; // of the value in the text
    // If the value is an object:
    size_t last_end;             // after its last member's value; its opening brace if it has none
    size_t inner_end;            // after the last byte before the closing brace that is not blank
    bool has_members, has_comma; // a comma follows the last member
};

// Where a value is that may have a place: the whole file, the section, or the entry in it.
enum level { LEVEL_FILE, LEVEL_SECTION, LEVEL_ENTRY, LEVEL_OTHER };

struct reader {
    const char *text;
    size_t at;
    struct buf plain; // without comments
    const char *section;
    const char *name; // of a member of the entry, or NULL
    struct place root, servers, entry, member;
    struct err *e;
};

static char peek(const struct reader *r)
{
    return r->text[r->at];
}

static int fail_at(struct reader *r, const char *what)
{
    size_t line = 1;
    for (size_t i = 0; i < r->at; i++)
        line += r->text[i] == '\n';
    return err_set(r->e, ERR_INVALID, "line %zu is not JSON: %s", line, what);
}

// Skip blanks and comments. Return the end of the last comment; 0: there was none.
static size_t skip(struct reader *r)
{
    size_t comment = 0;
    for (;;) {
        r->at += strspn(r->text + r->at, " \t\r\n");
        if (str_starts(r->text + r->at, "//"))
            r->at += strcspn(r->text + r->at, "\n");
        else if (str_starts(r->text + r->at, "/*")) {
            const char *end = strstr(r->text + r->at + 2, "*/");
            r->at = end ? (size_t)(end - r->text) + 2 : strlen(r->text);
        } else
            return comment;
        comment = r->at;
    }
}

static int read_value(struct reader *r, int depth, enum level level, struct place *place);

// Read a string, and append it to `plain`. `key` gets its text between the quotes, or is NULL.
static int read_string(struct reader *r, char **key)
{
    size_t start = r->at++;
    while (peek(r) && peek(r) != '"')
        r->at += peek(r) == '\\' && r->text[r->at + 1] ? 2 : 1;
    if (!peek(r))
        return fail_at(r, "a string has no end");
    r->at++;
    buf_add(&r->plain, r->text + start, r->at - start);
    if (key)
        *key = xstrndup(r->text + start + 1, r->at - start - 2);
    return 0;
}

// Return the place to note for a member of a value of this level, or NULL.
static struct place *place_of(struct reader *r, enum level level, const char *key)
{
    if (level == LEVEL_FILE && str_eq(key, r->section))
        return &r->servers;
    if (level == LEVEL_SECTION && str_eq(key, ENTRY_NAME))
        return &r->entry;
    return level == LEVEL_ENTRY && str_eq(key, r->name) ? &r->member : NULL;
}

static int read_member(struct reader *r, int depth, enum level level)
{
    char *key auto_free = NULL;
    if (peek(r) != '"')
        return fail_at(r, "a name in quotes is missing");
    if (read_string(r, &key) < 0)
        return -1;
    skip(r);
    if (peek(r) != ':')
        return fail_at(r, "a colon is missing");
    r->at++;
    buf_addc(&r->plain, ':');
    skip(r);
    struct place *place = place_of(r, level, key);
    return read_value(r, depth + 1, place ? level + 1 : LEVEL_OTHER, place);
}

// Read the members of an object or the items of a list, up to the closing character.
static int read_inside(struct reader *r, char close, int depth, enum level level,
                       struct place *place)
{
    struct place here = {.last_end = r->at};
    bool more = true;
    size_t last = r->at;
    while (true) {
        size_t comment = skip(r);
        last = comment ? comment : last;
        if (peek(r) == close)
            break;
        if (!more)
            return fail_at(r, "a comma is missing");
        if (here.has_members)
            buf_addc(&r->plain, ',');
        if ((close == '}' ? read_member(r, depth, level)
                          : read_value(r, depth + 1, LEVEL_OTHER, NULL)) < 0)
            return -1;
        here.has_members = true;
        here.last_end = last = r->at;
        comment = skip(r);
        last = comment ? comment : last;
        more = here.has_comma = peek(r) == ',';
        r->at += more;
        last = more ? r->at : last;
    }
    here.inner_end = last;
    if (place) {
        here.start = place->start;
        *place = here;
    }
    return 0;
}

static int read_value(struct reader *r, int depth, enum level level, struct place *place)
{
    size_t start = r->at;
    char open = peek(r);
    if (depth > DEPTH_MAX)
        return fail_at(r, "it is nested too deeply");
    if (place && place->found)
        return fail_at(r, "a name occurs twice");
    if (open == '{' || open == '[') {
        char close = open == '{' ? '}' : ']';
        r->at++;
        buf_addc(&r->plain, open);
        if (read_inside(r, close, depth, level, place) < 0)
            return -1;
        r->at++;
        buf_addc(&r->plain, close);
    } else if (open == '"') {
        if (read_string(r, NULL) < 0)
            return -1;
    } else {
        size_t len = strcspn(r->text + r->at, ",:{}[]\" \t\r\n/");
        if (!len)
            return fail_at(r, "a value is missing");
        buf_add(&r->plain, r->text + r->at, len);
        r->at += len;
    }
    if (place) {
        place->found = true;
        place->start = start;
        place->end = r->at;
    }
    return 0;
}

static int read_text(struct reader *r)
{
    skip(r);
    if (read_value(r, 0, LEVEL_FILE, &r->root) < 0)
        return -1;
    skip(r);
    return peek(r) ? fail_at(r, "something follows the end") : 0;
}

json_t *jsonc_parse(const char *text, struct err *e)
{
    struct reader r = {.text = text, .section = "", .e = e};
    json_t *value = read_text(&r) < 0 ? NULL : json_parse(buf_str(&r.plain), r.plain.len, e);
    buf_fini(&r.plain);
    return value;
}

// ---- the edit

// Return the blanks before the first member of an object, or those of the line with its brace and
// two more. New string.
static char *indent_of(const char *text, const struct place *object)
{
    size_t brace = object->start;
    size_t line = brace;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    size_t outer = strspn(text + line, " \t");
    const char *next = strchr(text + brace, '\n');
    size_t inner = next ? strspn(next + 1, " \t") : 0;
    if (object->has_members && next && (size_t)(next - text) < object->end && inner > outer)
        return xstrndup(next + 1, inner);
    bool tabs = outer && text[line] == '\t';
    char *base auto_free = xstrndup(text + line, outer);
    return str_printf("%s%s", base, tabs ? "\t" : "  ");
}

// Append a value over several lines: `indent` is that of the line that it begins in.
static void add_value(struct buf *out, const json_t *value, const char *indent)
{
    char *flat auto_free = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);
    char *with auto_free = str_printf("\n%s", indent);
    char *text auto_free = str_replace(flat, "\n", with);
    buf_adds(out, text);
}

// Add `"key": value` at the end of an object.
static void insert(struct buf *out, const char *text, const struct place *object, const char *key,
                   const json_t *value)
{
    char *indent auto_free = indent_of(text, object);
    bool needs_comma = object->has_members && !object->has_comma;
    buf_add(out, text, object->last_end);
    if (needs_comma)
        buf_addc(out, ',');
    buf_add(out, text + object->last_end, object->inner_end - object->last_end);
    buf_printf(out, "\n%s\"%s\": ", indent, key);
    add_value(out, value, indent);
    if (object->has_comma)
        buf_addc(out, ',');
    // The closing brace has a line of its own, as far in as the line of the opening one.
    const char *rest = text + object->inner_end;
    if (!memchr(rest, '\n', object->end - object->inner_end)) {
        size_t line = object->start;
        while (line > 0 && text[line - 1] != '\n')
            line--;
        buf_addc(out, '\n');
        buf_add(out, text + line, strspn(text + line, " \t"));
        rest += strspn(rest, " \t");
    }
    buf_adds(out, rest);
}

// Replace a value. What else is in its lines stays.
static void replace(struct buf *out, const char *text, const struct place *old, const json_t *value)
{
    size_t line = old->start;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    char *indent auto_free = xstrndup(text + line, strspn(text + line, " \t"));
    buf_add(out, text, old->start);
    add_value(out, value, indent);
    buf_adds(out, text + old->end);
}

// Set one member of the entry in `text`, which becomes the new text.
static int set_member(struct buf *text, const char *section, const char *name, const json_t *value,
                      struct err *e)
{
    struct buf out auto_buf = BUF_INIT;
    struct reader r = {.text = buf_str(text), .section = section, .name = name, .e = e};
    int rc = read_text(&r);
    if (rc == 0 && r.member.found)
        replace(&out, r.text, &r.member, value);
    else if (rc == 0)
        insert(&out, r.text, &r.entry, name, value);
    buf_fini(&r.plain);
    buf_clear(text);
    buf_add(text, out.data, out.len);
    return rc;
}

// Change the members of the entry that differ. If one goes, the entry is written as a whole.
static int change_entry(const struct reader *r, json_t *old, json_t *entry, struct buf *out)
{
    const char *name = NULL;
    json_t *value = NULL;
    bool is_whole = !json_is_object(old);
    json_object_foreach (old, name, value)
        is_whole = is_whole || !json_object_get(entry, name);
    if (is_whole) {
        replace(out, r->text, &r->entry, entry);
        return 0;
    }
    buf_adds(out, r->text);
    json_object_foreach (entry, name, value)
        if (!json_equal(json_object_get(old, name), value) &&
            set_member(out, r->section, name, value, r->e) < 0)
            return -1;
    return 0;
}

static void add_entry(const struct reader *r, json_t *entry, struct buf *out)
{
    if (r->servers.found) {
        insert(out, r->text, &r->servers, ENTRY_NAME, entry);
    } else {
        json_t *servers = json_pack("{s:O}", ENTRY_NAME, entry);
        insert(out, r->text, &r->root, r->section, servers);
        json_decref(servers);
    }
}

// Check that the new text has the entry, and else the values of the old one.
static int check(const char *text, const json_t *before, const char *section, json_t *entry,
                 struct err *e)
{
    json_t *after = jsonc_parse(text, e);
    json_t *wanted = json_deep_copy(before);
    json_t *servers = json_object_get(wanted, section);
    if (!servers)
        json_object_set_new(wanted, section, servers = json_object());
    json_object_set_new(servers, ENTRY_NAME, json_deep_copy(entry));
    bool same = after && json_equal(after, wanted);
    json_decref(after);
    json_decref(wanted);
    return same ? 0 : err_set(e, ERR_INVALID, "the edit would change more than one entry");
}

static int edit_parsed(struct reader *r, const json_t *before, json_t *entry, struct buf *out,
                       struct err *e)
{
    const json_t *servers = json_object_get(before, r->section);
    if (servers && !json_is_object(servers))
        return err_set(e, ERR_INVALID, "\"%s\" is not an object there", r->section);
    json_t *old = json_object_get(servers, ENTRY_NAME);
    if (!old) {
        add_entry(r, entry, out);
        return check(buf_str(out), before, r->section, entry, e);
    }
    json_t *wanted = entry_merge(old, entry);
    int rc = 0;
    if (json_equal(old, wanted))
        buf_adds(out, r->text);
    else if (!r->entry.found)
        rc = err_set(e, ERR_INVALID, "a name in it has an escape");
    else if ((rc = change_entry(r, old, wanted, out)) == 0)
        rc = check(buf_str(out), before, r->section, wanted, e);
    json_decref(wanted);
    return rc;
}

int edit_json(const char *text, const char *section, json_t *entry, struct buf *out, struct err *e)
{
    if (text[strspn(text, " \t\r\n")] == '\0') {
        json_t *whole = json_pack("{s:{s:O}}", section, ENTRY_NAME, entry);
        add_value(out, whole, "");
        buf_addc(out, '\n');
        json_decref(whole);
        return 0;
    }
    if (str_starts(text, TEXT_BOM))
        return err_set(e, ERR_INVALID, TEXT_BOM_SAID);
    struct reader r = {.text = text, .section = section, .e = e};
    int rc = read_text(&r);
    if (rc == 0 && text[r.root.start] != '{')
        rc = err_set(e, ERR_INVALID, "the file is not an object of JSON");
    json_t *before = rc == 0 ? json_parse(buf_str(&r.plain), r.plain.len, e) : NULL;
    rc = before ? edit_parsed(&r, before, entry, out, e) : -1;
    buf_fini(&r.plain);
    json_decref(before);
    return rc;
}
