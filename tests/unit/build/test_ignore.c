// SPDX-License-Identifier: Apache-2.0
// .dockerignore and the globs of COPY.
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/build/ignore.h"
#include "tests/lib/harness/tap.h"

static const struct {
    const char *pattern, *path;
    bool deep, matches;
} GLOBS[] = {
    {"a", "a", false, true},
    {"a", "ab", false, false},
    {"*", "abc", false, true},
    {"*", "a/b", false, false},
    {"*.c", "x.c", false, true},
    {"*.c", ".c", false, true},
    {"a*b*c", "a1b2c", false, true},
    {"a*b*c", "a1b2", false, false},
    {"?", "a", false, true},
    {"?", "/", false, false},
    {"[a-c]x", "bx", false, true},
    {"[^a-c]x", "bx", false, false},
    {"[]]", "]", false, true},
    {"[a", "a", false, false},
    {"\\*", "*", false, true},
    {"\\*", "a", false, false},
    {"**", "a/b/c", true, true},
    {"**/c", "a/b/c", true, true},
    {"**/c", "c", true, true},
    {"a/**/c", "a/c", true, true},
    {"a/**/c", "a/x/y/c", true, true},
    {"a/**", "a/x/y", true, true},
    {"a/**/*.c", "a/x/y.c", true, true},
    {"**/x/*.c", "a/x/b/x/y.c", true, true},
    {"**/c", "a/bc", true, false},
    {"a/*/c", "a/x/y/c", true, false},
};

static const struct {
    const char *patterns, *path;
    bool left_out;
} IGNORED[] = {
    {"", "a", false},
    {"a", "a", true},
    {"a", "a/b", true},
    {"a", "b/a", false},
    {"/a/", "a/b", true},
    {"./a/../b", "b", true},
    {"**/a", "b/c/a", true},
    {"*.md\n!README.md", "README.md", false},
    {"*.md\n!README.md", "x.md", true},
    {"!README.md\n*.md", "README.md", true},
    {"a\n!a/keep", "a/keep", false},
    {"a\n!a/keep", "a/other", true},
    {"# a\n\n  b  \r\n", "b", true},
    {"# a", "# a", false},
    {"*\n!x", "x", false},
    {"*\n!x", "y/x", true},
    {".", "a", false},
    {"\xff", "\xff", true},
};

int main(void)
{
    for (size_t i = 0; i < ARRAY_LEN(GLOBS); i++)
        ok(glob_matches(GLOBS[i].pattern, GLOBS[i].path, GLOBS[i].deep) == GLOBS[i].matches,
           "%s with %s", GLOBS[i].pattern, GLOBS[i].path);
    for (size_t i = 0; i < ARRAY_LEN(IGNORED); i++) {
        struct err e = ERR_INIT;
        const char *text = IGNORED[i].patterns;
        struct ignore *ig = ignore_new(text, strlen(text), &e);
        ok(ig && ignore_matches(ig, IGNORED[i].path) == IGNORED[i].left_out, "pattern %zu", i);
        ignore_free(ig);
    }
    struct err e = ERR_INIT;
    ok(!ignore_new("a\n!\n", 4, &e) && err_is(&e), "an exception without a pattern");
    ok(!ignore_new("a\0b", 3, &e), "a NUL");
    return tap_done();
}
