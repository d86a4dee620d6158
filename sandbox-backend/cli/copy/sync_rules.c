// SPDX-License-Identifier: Apache-2.0
#include "sandbox-backend/cli/copy/sync_rules.h"

#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/ignore.h"

struct rule {
    char *pattern; // owned; from the top, without a slash at either end
    bool shows;    // an exception
};

struct sync_rules {
    struct rule *items; // owned
    size_t count;
};

// Return a pattern from the top of the tree, or NULL if it names nothing. New string.
static char *from_top(const char *line, size_t len)
{
    struct buf out = BUF_INIT;
    bool is_empty = true;
    if (len && *line != '/')
        buf_adds(&out, "**/");
    for (const char *at = line, *end = line + len; at < end;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        size_t part = (size_t)((slash ? slash : end) - at);
        if (part && !is_empty)
            buf_addc(&out, '/');
        buf_add(&out, at, part);
        is_empty = is_empty && !part;
        at += part + 1;
    }
    return is_empty ? (buf_fini(&out), NULL) : buf_take(&out);
}

static int add_line(struct sync_rules *r, const char *line, size_t len, struct err *e)
{
    while (len && strchr(" \t\r", line[len - 1]))
        len--;
    if (!len || *line == '#')
        return 0;
    bool shows = *line == '!';
    char *pattern = from_top(line + shows, len - shows);
    if (!pattern)
        return err_set(e, ERR_INVALID, "the rule \"%.*s\" of " SYNC_RULES_FILE " names nothing",
                       (int)(len < 60 ? len : 60), line);
    if (r->count == SYNC_RULES_MAX) {
        free(pattern);
        return err_set(e, ERR_INVALID, SYNC_RULES_FILE " has more than %d rules", SYNC_RULES_MAX);
    }
    r->items = xrealloc(r->items, (r->count + 1) * sizeof *r->items);
    r->items[r->count++] = (struct rule){.pattern = pattern, .shows = shows};
    return 0;
}

struct sync_rules *sync_rules_new(const char *text, size_t len, struct err *e)
{
    struct sync_rules *r = xcalloc(1, sizeof *r);
    int result = 0;
    if (memchr(text, '\0', len))
        result = err_set(e, ERR_INVALID, SYNC_RULES_FILE " is not a text");
    for (const char *at = text, *end = text + len; result == 0 && at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t one = (size_t)((stop ? stop : end) - at);
        result = add_line(r, at, one, e);
        at += one + 1;
    }
    if (result == 0)
        return r;
    sync_rules_free(r);
    return NULL;
}

void sync_rules_free(struct sync_rules *r)
{
    for (size_t i = 0; r && i < r->count; i++)
        free(r->items[i].pattern);
    if (r)
        free(r->items);
    free(r);
}

static bool hides_itself(const struct sync_rules *r, const char *path)
{
    bool hidden = false;
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].shows == hidden && glob_matches(r->items[i].pattern, path, true))
            hidden = !r->items[i].shows;
    return hidden;
}

bool sync_rules_hide(const struct sync_rules *r, const char *path)
{
    char *copy auto_free = xstrdup(path);
    bool hidden = false;
    if (!r)
        return false;
    for (char *slash = strchr(copy, '/'); slash && !hidden; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        hidden = hides_itself(r, copy);
        *slash = '/';
    }
    return hidden || hides_itself(r, copy);
}
