// SPDX-License-Identifier: Apache-2.0
// The context: what is selected, its hash, and the tar.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/build/build_context.h"
#include "tests/lib/harness/tap.h"

static char *root; // of the context; its parent has a file that no build may see

static void put(const char *name, const char *text)
{
    char *path auto_free = str_printf("%s/%s", root, name);
    char *dir auto_free = xstrndup(path, (size_t)(strrchr(path, '/') - path));
    if (dir_make(dir, 0755, NULL) < 0 || file_replace(path, text, strlen(text), 0644, NULL) < 0)
        abort();
}

static void put_link(const char *name, const char *target)
{
    char *path auto_free = str_printf("%s/%s", root, name);
    if (symlink(target, path) < 0)
        abort();
}

// Return the selected paths, "a b/c", or the error. New string.
static char *selected(const char *type, const char *source, char *hash)
{
    struct err e = ERR_INIT;
    struct buf out = BUF_INIT;
    struct selection s;
    struct build_context *c = build_context_open(root, NULL, &e);
    json_t *step = json_pack("{s:s, s:[s]}", "type", type, "sources", source);
    if (build_context_select(c, step, &s, &e) < 0) {
        buf_adds(&out, e.msg);
    } else {
        for (size_t i = 0; i < s.count; i++)
            buf_printf(&out, "%s%s%s%s%s", i ? " " : "", s.entries[i].path,
                       s.entries[i].target ? "->" : "",
                       s.entries[i].target ? s.entries[i].target : "",
                       s.entries[i].unpack ? "!" : "");
        if (hash)
            strcpy(hash, s.hash);
        selection_fini(&s);
    }
    json_decref(step);
    build_context_close(c);
    return out.len ? buf_take(&out) : xstrdup("");
}

static void test_selection(void)
{
    static const char *const CASES[][2] = {
        {"a", "a"},
        {"/a", "a"},
        {"./d/../a", "the source \"./d/../a\" is outside the context"},
        {"../secret", "the source \"../secret\" is outside the context"},
        {"d", "d d/b d/c d/out->/etc/passwd d/up->../../secret"},
        {"d/*", "d/b d/c d/out->/etc/passwd d/up->../../secret"},
        {"d/out", "\"d/out\" is a link, or is behind one, that leads out of the context; copy the "
                  "files there into the context"},
        {"d/up", "\"d/up\" is a link, or is behind one, that leads out of the context; copy the "
                 "files there into the context"},
        {"d/u*", "d/up->../../secret"},
        {"stale", "\"stale\" is a link that leads to nothing in the context"},
        {"in", "in"},
        {"to-d/b", "to-d/b"},
        {"out-dir/passwd", "\"out-dir/passwd\" is a link, or is behind one, that leads out of the "
                           "context; copy the files there into the context"},
        {"?", "a d d/b d/c d/out->/etc/passwd d/up->../../secret"},
        {"left", "\"left\" is left out by .dockerignore"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char *got auto_free = selected("COPY", CASES[i][0], NULL);
        char *plain auto_free = str_replace(got, root, "ROOT");
        char *cut auto_free = str_replace(plain, " ROOT", "");
        is_str(cut, CASES[i][1], "select %s", CASES[i][0]);
    }
}

// An exception brings back what it names, and nothing else that is left out.
static void test_exceptions(void)
{
    static const char *const CASES[][3] = {
        {"secret.env\n!keep.log\n", "secret.env", "\"secret.env\" is left out by .dockerignore"},
        {"secret.env\n!keep.log\n", "se*", "nothing in the context matches \"se*\""},
        {"*\n!a\n", "secret.env", "\"secret.env\" is left out by .dockerignore"},
        {"*\n!a\n", "d", "\"d\" is left out by .dockerignore"},
        {"*\n!a\n", "to-d", "\"to-d\" is left out by .dockerignore"},
        {"*\n!a\n", "stale", "\"stale\" is left out by .dockerignore"},
        {"*\n!a\n", "a", "a"},
        {"*\n!a\n", ".", "a"},
        {"secret.env\n", "to-secret", "\"to-secret\" is left out by .dockerignore"},
        {"secret.env\n!a\n", "to-secret", "\"to-secret\" is left out by .dockerignore"},
        {"secret.env\nd\n", "to-s*", ""},
        {"d\n", "to-d", "\"to-d\" is left out by .dockerignore"},
        {"d/c\nd/out\nd/up\n", "to-d", "to-d to-d/b"},
        {"d\n!d/b\n", "d", "d d/b"},
        {"d\n!d/b\n", "d/b", "d/b"},
        {"d\n!d/b\n", "d/c", "\"d/c\" is left out by .dockerignore"},
    };
    put("secret.env", "secret");
    put_link("to-secret", "secret.env");
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        put(".dockerignore", CASES[i][0]);
        char *got auto_free = selected("COPY", CASES[i][1], NULL);
        char *plain auto_free = str_replace(got, root, "ROOT");
        char *cut auto_free = str_replace(plain, " ROOT", "");
        is_str(cut, CASES[i][2], "exceptions %zu: %s", i, CASES[i][1]);
    }
    put(".dockerignore", "left\n");
}

static void test_hash(void)
{
    char first[65], again[65], touched[65], changed[65], mode[65];
    char *path auto_free = str_printf("%s/d/b", root);
    free(selected("COPY", "d", first));
    free(selected("COPY", "d", again));
    is_str(again, first, "the same files have the same hash");
    const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    utimensat(AT_FDCWD, path, times, 0);
    free(selected("COPY", "d", touched));
    is_str(touched, first, "times do not count");
    chmod(path, 0600);
    free(selected("COPY", "d", mode));
    ok(strcmp(mode, first) != 0, "modes count");
    chmod(path, 0644);
    put("d/b", "other");
    free(selected("COPY", "d", changed));
    ok(strcmp(changed, first) != 0, "contents count");
}

static void test_pack(void)
{
    struct err e = ERR_INIT;
    struct selection s;
    struct build_context *c = build_context_open(root, NULL, &e);
    json_t *step = json_pack("{s:s, s:[s], s:[{s:s, s:s}]}", "type", "COPY", "sources", "d",
                             "files", "name", "EOF", "text", "inline\n");
    char *tar auto_free = str_printf("%s/../out.tar", root);
    int fd auto_close = open(tar, O_RDWR | O_CREAT | O_TRUNC, 0600);
    is_int(build_context_select(c, step, &s, &e), 0, "select: %s", e.msg);
    is_int(build_context_pack(c, step, &s, fd, &e), 0, "pack: %s", e.msg);
    char *archive auto_free = str_printf("%s/archive.tar", root);
    is_int(file_copy(tar, archive, 0644, &e), 0, "copy the tar into the context");
    char *added auto_free = selected("ADD", "archive.tar", NULL);
    is_str(added, "archive.tar!", "ADD unpacks a tar");
    char *plain auto_free = selected("ADD", "a", NULL);
    is_str(plain, "a", "ADD copies another file");
    put("d/b", "changed since");
    is_int(build_context_pack(c, step, &s, fd, &e), -1, "a changed file is found");
    selection_fini(&s);
    json_decref(step);
    build_context_close(c);
}

int main(void)
{
    char dir[] = "/tmp/cubby-context-XXXXXX";
    if (!mkdtemp(dir))
        return 1;
    root = str_printf("%s/ctx", dir);
    put("../secret", "secret");
    put("a", "a");
    put("d/b", "b");
    put("d/c", "c");
    put("left", "out");
    put(".dockerignore", "left\n");
    put_link("d/out", "/etc/passwd");
    put_link("d/up", "../../secret");
    put_link("in", "a");
    put_link("to-d", "d");
    put_link("out-dir", "/etc");
    put_link("stale", "no-such-file");
    test_selection();
    test_exceptions();
    test_hash();
    test_pack();
    dir_remove(dir, NULL);
    free(root);
    return tap_done();
}
