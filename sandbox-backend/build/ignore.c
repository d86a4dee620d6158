// SPDX-License-Identifier: Apache-2.0
// .dockerignore.
#include "sandbox-backend/build/ignore.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct pattern {
    char *text;     // owned; relative, without a slash at either end
    bool exception; // it began with "!"
};

struct ignore {
    struct pattern *patterns; // owned
    size_t count;
    bool exceptions;
};

// ---- globs
// Match one character class, "[a-z]". Return the text after it, or NULL if the class is malformed.
static const char *match_class(const char *p, unsigned char c, bool *matches)
{
    bool negated = p[1] == '^' || p[1] == '!';
    bool found = false;
    const char *s = p + 1 + negated;
    for (bool first = true; first || *s != ']'; first = false) {
        if (*s == '\\' && s[1])
            s++;
        if (!*s)
            return NULL;
        unsigned char low = (unsigned char)*s++;
        unsigned char high = low;
        if (*s == '-' && s[1] && s[1] != ']') {
            s += 1 + (s[1] == '\\' && s[2]);
            high = (unsigned char)*s++;
        }
        found = found || (low <= c && c <= high);
    }
    *matches = found != negated && c != '/';
    return s + 1;
}

// Match one character of the pattern. Return the pattern after it, or NULL if it does not match.
static const char *match_one(const char *p, char c)
{
    bool matches = false;
    if (*p == '[') {
        p = match_class(p, (unsigned char)c, &matches);
        return p && matches ? p : NULL;
    }
    if (*p == '?')
        return c != '/' ? p + 1 : NULL;
    if (*p == '\\' && p[1])
        p++;
    return *p == c ? p + 1 : NULL;
}

// The classic matcher with one point of return for each kind of star, so the time is bounded by
// the square of the lengths.
bool glob_matches(const char *pattern, const char *path, bool deep)
{
    const char *star = NULL, *star_at = NULL, *deep_star = NULL, *deep_at = NULL;
    const char *p = pattern, *s = path;
    for (;;) {
        if (deep && p[0] == '*' && p[1] == '*') {
            p += 2;
            if (*p == '/')
                p++;
            else if (*p == '\0')
                return true;
            deep_star = p;
            deep_at = s;
            star = NULL;
            continue;
        }
        if (*p == '*') {
            star = ++p;
            star_at = s;
            continue;
        }
        if (*p == '\0' && *s == '\0')
            return true;
        const char *next = *p && *s ? match_one(p, *s) : NULL;
        if (next) {
            p = next;
            s++;
        } else if (star && *star_at && *star_at != '/') {
            p = star;
            s = ++star_at;
        } else if (deep_star && *deep_at) { // begin again after the next directory
            deep_at += strcspn(deep_at, "/");
            deep_at += *deep_at == '/';
            if (!*deep_at)
                return false;
            p = deep_star;
            s = deep_at;
            star = NULL;
        } else {
            return false;
        }
    }
}

bool glob_is_pattern(const char *text)
{
    return strpbrk(text, "*?[\\") != NULL;
}

// ---- patterns
// Remove ".", "..", and double slashes as far as the text alone allows. New string.
static char *clean(const char *text, size_t len)
{
    struct buf out = BUF_INIT;
    for (const char *s = text, *end = text + len; s < end;) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        size_t part = (size_t)((slash ? slash : end) - s);
        bool up = part == 2 && s[0] == '.' && s[1] == '.';
        if (up) {
            const char *last = out.len ? strrchr(out.data, '/') : NULL;
            out.len = last ? (size_t)(last - out.data) : 0;
            if (out.data)
                out.data[out.len] = '\0';
        } else if (part && !(part == 1 && s[0] == '.')) {
            if (out.len)
                buf_addc(&out, '/');
            buf_add(&out, s, part);
        }
        s += part + 1;
    }
    return out.len ? buf_take(&out) : (buf_fini(&out), xstrdup(""));
}

static int add_line(struct ignore *ig, const char *line, size_t len, struct err *e)
{
    while (len && strchr(" \t\r", line[len - 1]))
        len--;
    if (len && line[0] == '#')
        return 0;
    for (; len && strchr(" \t", *line); line++)
        len--;
    bool exception = len && line[0] == '!';
    for (line += exception, len -= exception; len && strchr(" \t", *line); line++)
        len--;
    if (!len)
        return exception ? err_set(e, ERR_INVALID, ".dockerignore: a line has only \"!\"") : 0;
    if (ig->count == IGNORE_PATTERNS_MAX)
        return err_set(e, ERR_INVALID, ".dockerignore: there are more than %d patterns",
                       IGNORE_PATTERNS_MAX);
    char *text = clean(line, len);
    if (!*text) { // "." or "/" leave out nothing, as in Docker
        free(text);
        return 0;
    }
    ig->patterns = xrealloc(ig->patterns, (ig->count + 1) * sizeof *ig->patterns);
    ig->patterns[ig->count++] = (struct pattern){.text = text, .exception = exception};
    ig->exceptions = ig->exceptions || exception;
    return 0;
}

struct ignore *ignore_new(const char *text, size_t len, struct err *e)
{
    struct ignore *ig = xcalloc(1, sizeof *ig);
    int result = 0;
    if (len > IGNORE_BYTES_MAX || memchr(text, '\0', len))
        result = err_set(e, ERR_INVALID, ".dockerignore is too large, or is not a text");
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }
    for (const char *s = text, *end = text + len; result == 0 && s < end;) {
        const char *stop = memchr(s, '\n', (size_t)(end - s));
        size_t one = (size_t)((stop ? stop : end) - s);
        result = add_line(ig, s, one, e);
        s += one + 1;
    }
    if (result == 0)
        return ig;
    ignore_free(ig);
    return NULL;
}

void ignore_free(struct ignore *ig)
{
    for (size_t i = 0; ig && i < ig->count; i++)
        free(ig->patterns[i].text);
    if (ig)
        free(ig->patterns);
    free(ig);
}

// Tell whether the pattern matches the path or one of its parents.
static bool matches_up(const char *pattern, char *path)
{
    if (glob_matches(pattern, path, true))
        return true;
    for (char *slash = strrchr(path, '/'); slash;) {
        *slash = '\0';
        bool found = glob_matches(pattern, path, true);
        char *next = strrchr(path, '/');
        *slash = '/';
        if (found)
            return true;
        // Look for the slash before this one.
        slash = next;
    }
    return false;
}

bool ignore_matches(const struct ignore *ig, const char *path)
{
    bool out = false;
    char *copy auto_free = xstrdup(path);
    for (size_t i = 0; ig && i < ig->count; i++)
        if (ig->patterns[i].exception == out && matches_up(ig->patterns[i].text, copy))
            out = !out;
    return out;
}

bool ignore_has_exceptions(const struct ignore *ig)
{
    return ig && ig->exceptions;
}
