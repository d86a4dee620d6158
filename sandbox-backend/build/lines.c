// SPDX-License-Identifier: Apache-2.0
// The logical lines of a Dockerfile.
#include "sandbox-backend/build/lines.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

struct span {
    const char *at;
    size_t len;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static struct span trim(struct span s)
{
    for (; s.len && is_blank(s.at[0]); s.at++)
        s.len--;
    while (s.len && is_blank(s.at[s.len - 1]))
        s.len--;
    return s;
}

// ---- physical lines
static struct span take_line(struct lines *l)
{
    const char *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
    struct span line = {l->at, (size_t)((stop ? stop : l->end) - l->at)};
    l->at = stop ? stop + 1 : l->end;
    l->number++;
    if (line.len && line.at[line.len - 1] == '\r')
        line.len--;
    return line;
}

// ---- directives: "# name=value" lines before anything else
static bool read_directive(struct lines *l, struct span line, struct err *e)
{
    struct span s = trim(line);
    if (!s.len || s.at[0] != '#')
        return false;
    s = trim((struct span){s.at + 1, s.len - 1});
    const char *equals = memchr(s.at, '=', s.len);
    struct span name = trim((struct span){s.at, equals ? (size_t)(equals - s.at) : 0});
    if (!equals || !name.len)
        return false;
    struct span value = trim((struct span){equals + 1, s.len - (size_t)(equals + 1 - s.at)});
    if (name.len == 6 && strncasecmp(name.at, "escape", 6) == 0) {
        if (value.len != 1 || (value.at[0] != '\\' && value.at[0] != '`'))
            err_set(e, ERR_INVALID, "line %d: escape must be \\ or `", l->number);
        else
            l->escape = value.at[0];
        return true;
    }
    return (name.len == 6 && strncasecmp(name.at, "syntax", 6) == 0) ||
           (name.len == 5 && strncasecmp(name.at, "check", 5) == 0);
}

int lines_init(struct lines *l, const char *text, size_t len, struct err *e)
{
    *l = (struct lines){.at = text, .end = text + len, .escape = '\\'};
    if (len > DOCKERFILE_BYTES_MAX)
        return err_set(e, ERR_INVALID, "the Dockerfile has more than %d bytes",
                       DOCKERFILE_BYTES_MAX);
    if (memchr(text, '\0', len) || !utf8_is_valid(text, len))
        return err_set(e, ERR_INVALID, "the Dockerfile is not a text in UTF-8");
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        l->at += 3;
    for (struct lines ahead = *l; ahead.at < ahead.end && !err_is(e); *l = ahead)
        if (!read_directive(&ahead, take_line(&ahead), e))
            break;
        else
            l->escape = ahead.escape;
    return err_is(e) ? -1 : 0;
}

// ---- continuation
// Return whether the line continues, and take its escape character off. An escape character that is
// itself escaped does not continue the line.
static bool continues(const struct lines *l, struct span *line)
{
    size_t len = line->len;
    while (len && (line->at[len - 1] == ' ' || line->at[len - 1] == '\t'))
        len--;
    if (!len || line->at[len - 1] != l->escape)
        return false;
    if (len > 1 && line->at[len - 2] == l->escape)
        return false;
    line->len = len - 1;
    return true;
}

// Comments and empty lines between continuation lines are skipped.
static void join(struct lines *l, struct line *out)
{
    bool more = true;
    while (more && l->at < l->end) {
        struct span line = take_line(l);
        struct span bare = trim(line);
        if ((bare.len && bare.at[0] == '#') || !bare.len) {
            if (!out->text.len && !out->number)
                return;
            continue;
        }
        if (!out->number) {
            out->number = l->number;
            line.len -= (size_t)(bare.at - line.at);
            line.at = bare.at;
        }
        more = continues(l, &line);
        buf_add(&out->text, line.at, line.len);
    }
    struct span whole = trim((struct span){buf_str(&out->text), out->text.len});
    size_t len = whole.len;
    buf_consume(&out->text, out->text.len ? (size_t)(whole.at - out->text.data) : 0);
    if (out->text.len > len) {
        out->text.len = len;
        out->text.data[len] = '\0';
    }
}

// ---- here-documents
static bool takes_heredocs(const char *text)
{
    static const char *const NAMES[] = {"RUN", "COPY", "ADD"};
    size_t len = strcspn(text, " \t");
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++)
        if (len == strlen(NAMES[i]) && strncasecmp(text, NAMES[i], len) == 0)
            return true;
    return false;
}

// Return the end of the word at `s`. Quotes hold white space.
static const char *word_end(const char *s, char escape)
{
    char quote = 0;
    for (; *s && (quote || !isspace((unsigned char)*s)); s++) {
        if (*s == escape && quote != '\'' && s[1])
            s++;
        else if (quote && *s == quote)
            quote = 0;
        else if (!quote && (*s == '"' || *s == '\''))
            quote = *s;
    }
    return s;
}

// Read "<<EOF", "3<<-'EOF'" ... Return whether the word begins a here-document.
static bool read_mark(const char *word, size_t len, struct heredoc *out)
{
    const char *s = word, *end = word + len;
    while (s < end && isdigit((unsigned char)*s))
        s++;
    if (end - s < 3 || s[0] != '<' || s[1] != '<')
        return false;
    s += 2;
    bool chomp = *s == '-';
    s += chomp;
    bool quoted = end - s >= 2 && (*s == '"' || *s == '\'') && end[-1] == *s;
    s += quoted;
    end -= quoted;
    if (s >= end || memchr(s, '<', (size_t)(end - s)))
        return false;
    *out =
        (struct heredoc){.name = xstrndup(s, (size_t)(end - s)), .literal = quoted, .chomp = chomp};
    return true;
}

static int read_body(struct lines *l, const struct line *line, struct heredoc *doc, struct err *e)
{
    struct buf text = BUF_INIT;
    while (l->at < l->end) {
        struct span s = take_line(l);
        while (doc->chomp && s.len && s.at[0] == '\t') {
            s.at++;
            s.len--;
        }
        if (s.len == strlen(doc->name) && memcmp(s.at, doc->name, s.len) == 0) {
            doc->text = text.len ? buf_take(&text) : xstrdup("");
            return 0;
        }
        buf_add(&text, s.at, s.len);
        buf_addc(&text, '\n');
    }
    buf_fini(&text);
    return err_set(e, ERR_INVALID, "line %d: the here-document <<%s has no end", line->number,
                   doc->name);
}

static int read_heredocs(struct lines *l, struct line *line, struct err *e)
{
    const char *s = buf_str(&line->text);
    if (!takes_heredocs(s))
        return 0;
    while (*s) {
        const char *end = word_end(s, l->escape);
        struct heredoc doc;
        if (end == s) {
            s++;
            continue;
        }
        if (read_mark(s, (size_t)(end - s), &doc)) {
            if (line->heredoc_count == HEREDOCS_MAX) {
                free(doc.name);
                return err_set(e, ERR_INVALID, "line %d: there are more than %d here-documents",
                               line->number, HEREDOCS_MAX);
            }
            struct heredoc *to = &line->heredocs[line->heredoc_count++];
            *to = doc;
            if (read_body(l, line, to, e) < 0)
                return -1;
        }
        s = end;
    }
    return 0;
}

int lines_next(struct lines *l, struct line *out, struct err *e)
{
    *out = (struct line){0};
    while (l->at < l->end && !out->text.len) {
        buf_clear(&out->text);
        out->number = 0;
        join(l, out);
    }
    if (!out->text.len)
        return 0;
    return read_heredocs(l, out, e) < 0 ? -1 : 1;
}

void line_fini(struct line *line)
{
    buf_fini(&line->text);
    for (int i = 0; i < line->heredoc_count; i++) {
        free(line->heredocs[i].name);
        free(line->heredocs[i].text);
    }
}
