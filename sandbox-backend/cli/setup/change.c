// SPDX-License-Identifier: Apache-2.0
// cubby setup: shows what an edit changes. An edit changes one part of a file, so the lines before
// it and after it are the same.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/setup/setup.h"

#define CONTEXT_LINES 3

// Return the length of the line at `text`, with its newline.
static size_t line_bytes(const char *text)
{
    size_t len = strcspn(text, "\n");
    return len + (text[len] == '\n');
}

// Return how many bytes of whole lines both texts begin with.
static size_t same_start(const char *a, const char *b)
{
    size_t same = 0;
    while (a[same]) {
        size_t len = line_bytes(a + same);
        if (len != line_bytes(b + same) || memcmp(a + same, b + same, len) != 0)
            break;
        same += len;
    }
    return same;
}

// Return where the last line before `at` begins.
static size_t line_before(const char *text, size_t at)
{
    for (at -= at > 0; at > 0 && text[at - 1] != '\n'; at--)
        ;
    return at;
}

static void same_end(const char *a, const char *b, size_t from, size_t *a_end, size_t *b_end)
{
    while (*a_end > from && *b_end > from) {
        size_t x = line_before(a, *a_end), y = line_before(b, *b_end);
        if (x < from || y < from || *a_end - x != *b_end - y ||
            memcmp(a + x, b + y, *a_end - x) != 0)
            return;
        *a_end = x;
        *b_end = y;
    }
}

static void print_lines(char mark, const char *text, size_t from, size_t to)
{
    for (size_t at = from; at < to;) {
        size_t len = strcspn(text + at, "\n");
        len = len < to - at ? len : to - at;
        char *line auto_free = xstrndup(text + at, len);
        putchar(mark);
        putchar(' ');
        cli_print_line(line);
        at += len + 1;
    }
}

void change_print(const char *before, const char *after)
{
    size_t before_len = strlen(before);
    size_t start = same_start(before, after);
    size_t before_end = before_len, after_end = strlen(after);
    same_end(before, after, start, &before_end, &after_end);
    size_t shown = start, rest = before_end;
    for (int i = 0; i < CONTEXT_LINES; i++) {
        shown = line_before(before, shown);
        rest += line_bytes(before + rest);
    }
    print_lines(' ', before, shown, start);
    print_lines('-', before, start, before_end);
    print_lines('+', after, start, after_end);
    print_lines(' ', before, before_end, rest);
}
