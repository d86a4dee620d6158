// SPDX-License-Identifier: Apache-2.0
// What in a text is like something that does not occur in it.
#include "mcp-server/tools/edit_near.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/str.h"

#define SHOWN_BYTES 120
#define ALIKE       60       // percent of a line's bytes
#define STEPS_MAX   20000000 // of a search that some texts would make a very long one

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static int64_t line_at(const char *data, size_t at)
{
    int64_t line = 1;
    for (size_t i = 0; i < at; i++)
        line += data[i] == '\n';
    return line;
}

// Whether `old` stands at data[at] but for white space. Counts its steps down.
static bool same_but_space(const char *data, size_t len, size_t at, const char *old, int64_t *steps)
{
    while (--*steps > 0) {
        while (at < len && is_space(data[at]))
            at++;
        while (is_space(*old))
            old++;
        if (!*old)
            return true;
        if (at == len || data[at] != *old)
            return false;
        at++;
        old++;
    }
    return false;
}

static size_t find_but_space(const char *data, size_t len, const char *old)
{
    int64_t steps = STEPS_MAX;
    while (is_space(*old))
        old++;
    for (size_t at = 0; *old && at < len && steps > 0; at++)
        if (data[at] == *old && same_but_space(data, len, at, old, &steps))
            return at;
    return len;
}

struct line {
    const char *data;
    size_t len;
};

// The line at *at without white space around it; moves *at to the next one.
static struct line next_line(const char *data, size_t len, size_t *at)
{
    const char *lf = memchr(data + *at, '\n', len - *at);
    size_t from = *at;
    size_t to = lf ? (size_t)(lf - data) : len;
    *at = lf ? to + 1 : len;
    while (from < to && is_space(data[from]))
        from++;
    while (to > from && is_space(data[to - 1]))
        to--;
    return (struct line){data + from, to - from};
}

// Percent of the longer one that is the same at their beginnings and at their ends.
static size_t likeness(struct line a, struct line b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    size_t longer = a.len < b.len ? b.len : a.len;
    size_t head = 0;
    size_t tail = 0;
    while (head < shorter && a.data[head] == b.data[head])
        head++;
    while (tail < shorter - head && a.data[a.len - 1 - tail] == b.data[b.len - 1 - tail])
        tail++;
    return longer ? (head + tail) * 100 / longer : 0;
}

static struct line first_words(const char *old)
{
    size_t len = strlen(old);
    size_t at = 0;
    struct line first = {old, 0};
    while (at < len && first.len == 0)
        first = next_line(old, len, &at);
    return first;
}

static int fail_like(const char *data, size_t len, const char *old, struct err *e)
{
    struct line wanted = first_words(old);
    struct line best = {data, 0};
    size_t best_score = 0;
    for (size_t at = 0; at < len;) {
        struct line line = next_line(data, len, &at);
        size_t score = likeness(wanted, line);
        if (score > best_score) {
            best_score = score;
            best = line;
        }
    }
    if (best_score < ALIKE)
        return err_set(e, ERR_NOT_FOUND,
                       "old_text does not occur in the file, nor anything like its first line: "
                       "read the file first");
    size_t shown = best.len < SHOWN_BYTES ? best.len : utf8_valid_prefix(best.data, SHOWN_BYTES);
    return err_set(e, ERR_NOT_FOUND,
                   "old_text does not occur in the file. %s is at line %lld: %.*s",
                   best_score == 100 ? "Its first line" : "The line most like its first one",
                   (long long)line_at(data, (size_t)(best.data - data)), (int)shown, best.data);
}

int edit_near_fail(const char *data, size_t len, const char *old, struct err *e)
{
    size_t at = find_but_space(data, len, old);
    if (at == len)
        return fail_like(data, len, old, e);
    size_t next = at;
    while (next > 0 && data[next - 1] != '\n')
        next--;
    const char *line = data + next;
    const char *lf = memchr(line, '\n', len - next);
    size_t whole = lf ? (size_t)(lf - line) : len - next;
    size_t shown = whole < SHOWN_BYTES ? whole : utf8_valid_prefix(line, SHOWN_BYTES);
    return err_set(e, ERR_NOT_FOUND,
                   "old_text does not occur in the file as given; at line %lld it does with other "
                   "white space (indentation, tabs, ends of lines): |%.*s|",
                   (long long)line_at(data, at), (int)shown, line);
}
