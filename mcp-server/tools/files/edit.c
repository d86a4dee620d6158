// SPDX-License-Identifier: Apache-2.0
// Exact replacement in a text.
#include "mcp-server/tools/files/edit.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define CONTEXT_LINES 2
#define SHOWN_CHANGES 3
#define SHOWN_LINES   30  // lines of one change, of the old and of the new text
#define SHOWN_BYTES   200 // of a line
#define LISTED_LINES  8   // of the lines at which there are too many

#define SHOWN_NEAR_BYTES 120
#define ALIKE            60       // percent of a line's bytes
#define STEPS_MAX        20000000 // of a search that some texts would make a very long one

struct span {
    const char *data;
    size_t len;
};

static const char *find(struct span in, size_t from, struct span what)
{
    return memmem(in.data + from, in.len - from, what.data, what.len);
}

// ---- 1. ends of lines

static bool is_crlf(struct span text)
{
    bool any = false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] != '\n')
            continue;
        any = true;
        if (i == 0 || text.data[i - 1] != '\r')
            return false;
    }
    return any;
}

static void add_as_crlf(struct buf *out, const char *s)
{
    for (const char *p = s; *p; p++) {
        if (*p == '\n' && (p == s || p[-1] != '\r'))
            buf_addc(out, '\r');
        buf_addc(out, *p);
    }
}

// ---- 2. what is shown of it

static size_t line_start(struct span text, size_t at)
{
    while (at > 0 && text.data[at - 1] != '\n')
        at--;
    return at;
}

static size_t line_end(struct span text, size_t at) // after its LF
{
    const char *lf = at < text.len ? memchr(text.data + at, '\n', text.len - at) : NULL;
    return lf ? (size_t)(lf - text.data) + 1 : text.len;
}

static int64_t count_lf(struct span text, size_t from, size_t to)
{
    int64_t n = 0;
    for (size_t i = from; i < to; i++)
        n += text.data[i] == '\n';
    return n;
}

static void add_lines(struct buf *out, char mark, struct span text, int64_t number)
{
    size_t at = 0;
    for (int shown = 0; at < text.len; shown++, number++) {
        size_t end = line_end(text, at);
        size_t len = end - at;
        while (len > 0 && (text.data[at + len - 1] == '\n' || text.data[at + len - 1] == '\r'))
            len--;
        if (shown == SHOWN_LINES) {
            buf_printf(out, "%c      ...\n", mark);
            return;
        }
        size_t fits = len <= SHOWN_BYTES ? len : utf8_valid_prefix(text.data + at, SHOWN_BYTES);
        buf_printf(out, "%c%5lld ", mark, (long long)number);
        buf_add(out, text.data + at, fits);
        buf_adds(out, fits < len ? "...\n" : "\n");
        at = end;
    }
}

static struct span before(struct span text, size_t start)
{
    size_t from = start;
    for (int i = 0; i < CONTEXT_LINES && from > 0; i++)
        from = line_start(text, from - 1);
    return (struct span){text.data + from, start - from};
}

static struct span after(struct span text, size_t end)
{
    size_t to = end;
    for (int i = 0; i < CONTEXT_LINES && to < text.len; i++)
        to = line_end(text, to);
    return (struct span){text.data + end, to - end};
}

// A change in the diff: whole lines that differ, as byte ranges of the old text and the new text.
struct change {
    size_t from, to;         // in the old text
    size_t new_from, new_to; // in the new one
};

static void add_change(struct buf *out, struct span old, struct span new, const struct change *p)
{
    struct span head = before(new, p->new_from);
    int64_t old_line = count_lf(old, 0, p->from) + 1;
    int64_t new_line = count_lf(new, 0, p->new_from) + 1;
    struct span added = {new.data + p->new_from, p->new_to - p->new_from};
    add_lines(out, ' ', head, new_line - count_lf(head, 0, head.len));
    add_lines(out, '-', (struct span){old.data + p->from, p->to - p->from}, old_line);
    add_lines(out, '+', added, new_line);
    add_lines(out, ' ', after(new, p->new_to), new_line + count_lf(added, 0, added.len));
}

// ---- 3. what is similar to a text that does not occur

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

// Return whether `old` is at data[at], except for white space. Counts its steps down.
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

// Return the line at *at without white space around it; move *at to the next one.
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

// Return the percentage of the longer line that both share at their starts and ends.
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
                       "old_text does not occur in the file, and no line is similar to its first "
                       "line. Read the file, then copy old_text from it");
    size_t shown =
        best.len < SHOWN_NEAR_BYTES ? best.len : utf8_valid_prefix(best.data, SHOWN_NEAR_BYTES);
    return err_set(e, ERR_NOT_FOUND, "old_text does not occur in the file. %s is line %lld: %.*s",
                   best_score == 100 ? "The first line of old_text" : "The most similar line",
                   (long long)line_at(data, (size_t)(best.data - data)), (int)shown, best.data);
}

// Set ERR_NOT_FOUND. The message shows the lines that differ from `old` only in white space, or
// else the line that is most similar to its first line.
static int fail_near(const char *data, size_t len, const char *old, struct err *e)
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
    size_t shown = whole < SHOWN_NEAR_BYTES ? whole : utf8_valid_prefix(line, SHOWN_NEAR_BYTES);
    return err_set(e, ERR_NOT_FOUND,
                   "old_text does not match exactly; line %lld differs only in white space "
                   "(indentation, tabs, line ends). Copy it as it is: |%.*s|",
                   (long long)line_at(data, at), (int)shown, line);
}

// ---- 4. replacing

struct work {
    struct span text, old, new;
    struct edited *out;
    struct change changes[SHOWN_CHANGES];
    int change_count;
};

// Note a replacement of text[at..], written to new_at, as a change, or extend the last change. A
// text may be one long line with very many replacements, so lines are not searched twice.
static void note_change(struct work *w, size_t at, size_t new_at)
{
    size_t end = at + w->old.len;
    struct change *last = w->change_count ? &w->changes[w->change_count - 1] : NULL;
    if (last && at < last->to) {
        if (end > last->to)
            last->to = line_end(w->text, end - 1);
    } else if (w->change_count < SHOWN_CHANGES) {
        size_t from = line_start(w->text, at);
        w->changes[w->change_count++] = (struct change){
            .from = from, .to = line_end(w->text, end - 1), .new_from = new_at - (at - from)};
    }
}

// Find the ends of the changes in the new text. They are as far behind the last replacement as in
// the old text. `at` and `new_at` are at the end of a replacement.
static void note_end(struct work *w, size_t at, size_t new_at)
{
    struct change *last = &w->changes[w->change_count - 1];
    if (at <= last->to)
        last->new_to = new_at + (last->to - at);
}

static int64_t count_hits(const struct work *w)
{
    int64_t count = 0;
    size_t at = 0;
    const char *hit;
    for (; (hit = find(w->text, at, w->old)); count++)
        at = (size_t)(hit - w->text.data) + w->old.len;
    return count;
}

// Many insertions of a short text can exceed any memory, so check the size first.
static int check_size(const struct work *w, size_t max, struct err *e)
{
    size_t grows = w->new.len > w->old.len ? w->new.len - w->old.len : 0;
    size_t room = w->text.len < max ? max - w->text.len : 0;
    if (grows == 0 || (grows <= room && (uint64_t)count_hits(w) <= room / grows))
        return 0;
    return err_set(e, ERR_TOO_LARGE, "the edit would make the file larger than %zu bytes", max);
}

static void replace(struct work *w)
{
    struct buf *out = &w->out->text;
    size_t at = 0;
    const char *hit;
    while ((hit = find(w->text, at, w->old))) {
        size_t found = (size_t)(hit - w->text.data);
        buf_add(out, w->text.data + at, found - at);
        note_change(w, found, out->len);
        buf_add(out, w->new.data, w->new.len);
        at = found + w->old.len;
        note_end(w, at, out->len);
        w->out->count++;
    }
    buf_add(out, w->text.data + at, w->text.len - at);
}

static void show(struct work *w)
{
    struct span new = {buf_str(&w->out->text), w->out->text.len};
    for (int i = 0; i < w->change_count; i++) {
        if (i > 0)
            buf_adds(&w->out->diff, "   ...\n");
        add_change(&w->out->diff, w->text, new, &w->changes[i]);
    }
}

static int fail_many(const struct work *w, struct err *e)
{
    struct buf lines auto_buf = BUF_INIT;
    int listed = 0;
    int64_t line = 1;
    int64_t last = 0;
    size_t at = 0; // `line` is the number of the line at this offset
    const char *hit;
    for (size_t from = 0; listed <= LISTED_LINES && (hit = find(w->text, from, w->old));) {
        size_t found = (size_t)(hit - w->text.data);
        line += count_lf(w->text, at, found);
        at = found;
        from = found + w->old.len;
        if (line == last)
            continue;
        if (listed++ < LISTED_LINES)
            buf_printf(&lines, "%s%lld", listed > 1 ? ", " : "", (long long)line);
        last = line;
    }
    return err_set(
        e, ERR_CONFLICT,
        "old_text occurs %lld times, at line%s %s%s. Add surrounding lines to old_text so "
        "that it matches once, or set replace_all",
        (long long)count_hits(w), listed > 1 ? "s" : "", buf_str(&lines),
        listed > LISTED_LINES ? " and more" : "");
}

static int apply(struct work *w, bool all, size_t max, struct err *e)
{
    const char *first = find(w->text, 0, w->old);
    if (w->old.len == w->new.len && memcmp(w->old.data, w->new.data, w->old.len) == 0)
        return err_set(e, ERR_INVALID, "old_text and new_text are the same: nothing to change");
    if (!first)
        return fail_near(w->text.data, w->text.len, w->old.data, e);
    if (!all && find(w->text, (size_t)(first - w->text.data) + w->old.len, w->old))
        return fail_many(w, e);
    if (check_size(w, max, e) < 0)
        return -1;
    replace(w);
    show(w);
    return 0;
}

void edited_fini(struct edited *d)
{
    buf_fini(&d->text);
    buf_fini(&d->diff);
}

int edit_apply(const struct edit *edit, const char *data, size_t len, struct edited *out,
               struct err *e)
{
    struct buf old auto_buf = BUF_INIT;
    struct buf new auto_buf = BUF_INIT;
    struct work w = {.text = {data, len}, .out = out};
    *out = (struct edited){0};
    if (is_crlf(w.text)) {
        add_as_crlf(&old, edit->old_text);
        add_as_crlf(&new, edit->new_text);
    } else {
        buf_adds(&old, edit->old_text);
        buf_adds(&new, edit->new_text);
    }
    w.old = (struct span){buf_str(&old), old.len};
    w.new = (struct span){buf_str(&new), new.len};
    return apply(&w, edit->all, edit->max, e);
}
