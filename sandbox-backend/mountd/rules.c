// SPDX-License-Identifier: Apache-2.0
// The rules that hide files of a mounted directory.
#include "sandbox-backend/mountd/rules.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/mountd/hidden.h"

const char RULES_DEFAULT[] = HIDDEN_BY_DEFAULT;

struct rule {
    char *text;                        // owned; its slashes are NULs
    const char *names[RULE_NAMES_MAX]; // in `text`
    size_t count;
    bool anchored, shows;
};

// A path as its names.
struct names {
    char text[PATH_MAX];
    const char *items[PATH_MAX / 2];
    size_t count;
};

// Split a rule into its names. Return what is wrong with it, or NULL.
static const char *split(struct rule *rule)
{
    for (char *rest = rule->text, *name; (name = strsep(&rest, "/"));) {
        if (!*name)
            continue; // a slash at either end, or two together
        if (strcmp(name, "**") == 0 && !rule->count && rest) {
            rule->anchored = false; // any directory, as without it
            continue;
        }
        if (strstr(name, "**"))
            return "has \"**\" elsewhere than at its start, as in \"**/name\"";
        if (strchr(name, '\\'))
            return "has a backslash";
        if (rule->count == RULE_NAMES_MAX)
            return "has more than 16 names";
        rule->names[rule->count++] = name;
    }
    return rule->count ? NULL : "names nothing";
}

static int add_line(struct rules *r, const char *line, size_t len, struct err *e)
{
    struct rule rule = {0};
    while (len && strchr(" \t\r", line[len - 1]))
        len--;
    if (!len || *line == '#')
        return 0;
    rule.shows = *line == '!';
    rule.text = xstrndup(line + rule.shows, len - rule.shows);
    rule.anchored = *rule.text == '/';
    const char *wrong = memchr(line, '\0', len) ? "has a zero byte"
                        : r->count == RULES_MAX ? "is one more than 1024 rules"
                                                : split(&rule);
    if (wrong) {
        free(rule.text);
        return err_set(e, ERR_INVALID, "the rule \"%.*s\" of %s %s", (int)MIN(len, 60), line,
                       RULES_FILE, wrong);
    }
    r->items = xrealloc(r->items, (r->count + 1) * sizeof *r->items);
    r->items[r->count++] = rule;
    return 0;
}

int rules_add(struct rules *r, const char *text, size_t len, struct err *e)
{
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t line = end ? (size_t)(end - text) - at : len - at;
        if (add_line(r, text + at, line, e) < 0)
            return -1;
        at += line + 1;
    }
    return 0;
}

void rules_fini(struct rules *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->items[i].text);
    free(r->items);
    *r = (struct rules){0};
}

static void names_of(const char *path, struct names *out)
{
    size_t len = strnlen(path, sizeof out->text - 1);
    memcpy(out->text, path, len);
    out->text[len] = '\0';
    out->count = 0;
    for (char *rest = out->text, *name; (name = strsep(&rest, "/"));)
        if (*name && out->count < ARRAY_LEN(out->items))
            out->items[out->count++] = name;
}

// Return whether the first `wanted` names of the rule are the last of the first `count` names.
static bool matches(const struct rule *rule, size_t wanted, const struct names *path, size_t count)
{
    if (count < wanted || (rule->anchored && count != wanted))
        return false;
    for (size_t i = 0; i < wanted; i++)
        if (fnmatch(rule->names[i], path->items[count - wanted + i], FNM_NOESCAPE) != 0)
            return false;
    return true;
}

bool rules_hide(const struct rules *r, const char *path)
{
    struct names names;
    names_of(path, &names);
    for (size_t count = 1; count <= names.count; count++) {
        bool hidden = false;
        for (size_t i = 0; i < r->count; i++)
            if (r->items[i].shows == hidden &&
                matches(&r->items[i], r->items[i].count, &names, count))
                hidden = !r->items[i].shows;
        if (hidden)
            return true;
    }
    return false;
}

bool rules_pin(const struct rules *r, const char *path)
{
    struct names names;
    names_of(path, &names);
    for (size_t i = 0; i < r->count; i++)
        for (size_t wanted = 1; wanted < r->items[i].count; wanted++)
            if (matches(&r->items[i], wanted, &names, names.count))
                return true;
    return false;
}
