// SPDX-License-Identifier: Apache-2.0
// The removals that a file of tokens records.
#include <string.h>
#include <unistd.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/token_file.h"
#include "tests/lib/harness/tap.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
#define ONE(...) \
    "{\"tokens\": [{\"name\": \"a\", \"sha256\": \"" ABC "\"}], \"removed\": " __VA_ARGS__ "}"

static char *path;

static void write_file(const char *text)
{
    struct err e = ERR_INIT;
    if (file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        ok(false, "%s", e.msg);
}

// Return the time of a name's removal in the file, 0: it has none.
static int64_t removed_at(const char *name)
{
    struct token_list l;
    struct err e = ERR_INIT;
    int64_t at_ns = 0;
    if (token_file_read(path, &l, &e) < 0)
        ok(false, "%s", e.msg);
    for (int i = 0; i < l.removed_count; i++)
        if (str_eq(l.removed[i].name, name))
            at_ns = l.removed[i].at_ns;
    token_list_fini(&l);
    return at_ns;
}

static int count_removed(void)
{
    struct token_list l;
    struct err e = ERR_INIT;
    if (token_file_read(path, &l, &e) < 0)
        ok(false, "%s", e.msg);
    int count = l.removed_count;
    token_list_fini(&l);
    return count;
}

static void add(const char *name)
{
    struct err e = ERR_INIT;
    char *token auto_free = token_file_add(path, name, &TOKEN_API_KEY, &e);
    if (!token)
        ok(false, "%s", e.msg);
}

static bool takes_out(const char *name, bool keep)
{
    struct err e = ERR_INIT;
    return token_file_remove(path, name, keep, &e) == 0;
}

static void test_parse(void)
{
    static const char GOOD[] = ONE("{\"b\": \"2026-11-28T10:11:12.000000007Z\",\n"
                                   "\"a\": \"2026-11-28T12:11:12+02:00\"}");
    struct token_list l;
    struct err e = ERR_INIT;
    is_int(token_list_parse(GOOD, sizeof GOOD - 1, &l, &e), 0, "removals %s", e.msg);
    ok(l.count == 1 && l.removed_count == 2, "beside the tokens");
    ok(str_eq(l.removed[0].name, "b") && str_eq(l.removed[1].name, "a") &&
           l.removed[0].at_ns == l.removed[1].at_ns + 7,
       "with their times");
    token_list_fini(&l);
    ok(!l.removed && !l.removed_count, "nothing is left");
}

static void test_parse_bad(void)
{
    static const struct {
        const char *text, *says;
    } BAD[] = {
        {ONE("[]"), "removed must be an object"},
        {ONE("null"), "removed must be an object"},
        {ONE("{\"b\": 1}"), "removed: \"b\" needs a time such as"},
        {ONE("{\"b\": \"now\"}"), "removed: \"b\" needs a time such as"},
        {ONE("{\"b b\": \"2026-11-28T10:11:12Z\"}"), "removed: name must be"},
        {ONE("{\"\": \"2026-11-28T10:11:12Z\"}"), "removed: name must be"},
        {ONE("{\"b\": \"2026-11-28T10:11:12Z\", \"b\": \"2026-11-28T10:11:12Z\"}"), "duplicate"},
        {"{\"removed\": {}}", "it must be"},
        {"{\"removed\": {\"b\": \"2026-11-28T10:11:12Z\"},\n\"tokens\": [\n{\"name\": 1}]}",
         "line 3"},
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct token_list l;
        struct err e = ERR_INIT;
        ok(token_list_parse(BAD[i].text, strlen(BAD[i].text), &l, &e) == -1 && !l.removed &&
               strstr(e.msg, BAD[i].says),
           "%s", e.msg);
    }
}

static void test_remove(void)
{
    unlink(path);
    add("a");
    add("b");
    int64_t before = clock_wall_ns();
    ok(takes_out("a", false), "a removal");
    int64_t first = removed_at("a");
    ok(first >= before && first <= clock_wall_ns(), "has its time");
    ok(takes_out("b", true) && !removed_at("b"), "one that keeps the belongings is not recorded");
    ok(!takes_out("b", false) && !removed_at("b"), "nor one of a name that the file lacks");
    add("a");
    is_int(removed_at("a"), first, "a new key of the name leaves it as it is");
    ok(takes_out("a", true) && removed_at("a") == first, "and so does its end with --keep");
    add("a");
    ok(takes_out("a", false) && removed_at("a") > first, "the next removal is later");
}

static void test_clock_that_went_back(void)
{
    write_file(ONE("{\"a\": \"2200-01-01T00:00:00.5Z\"}"));
    int64_t before = removed_at("a");
    ok(takes_out("a", false) && removed_at("a") == before + 1, "a time that grows all the same");
    write_file(ONE("{\"a\": \"2262-04-11T23:47:16.854775807Z\"}"));
    struct err e = ERR_INIT;
    ok(token_file_remove(path, "a", false, &e) < 0 && strstr(e.msg, "no time is later"), "%s",
       e.msg);
    struct token_list l;
    ok(token_file_read(path, &l, &e) < 0 || l.count == 1, "the token is still there");
    token_list_fini(&l);
}

static void test_limit(void)
{
    struct buf text auto_buf = BUF_INIT;
    buf_printf(&text, "{\"removed\": {");
    for (int i = 0; i < TOKENS_MAX; i++)
        buf_printf(&text, "%s\"k%d\": \"2200-01-01T00:00:%02d.%03dZ\"", i ? ", " : "", i,
                   i == 500 ? 0 : 1, i % 1000);
    buf_printf(&text, "}, \"tokens\": [{\"name\": \"a\", \"sha256\": \"" ABC "\"}]}");
    write_file(buf_str(&text));
    is_int(count_removed(), TOKENS_MAX, "as many removals as the file may have");
    ok(takes_out("a", false) && removed_at("a") && count_removed() == TOKENS_MAX, "and one more");
    ok(!removed_at("k500") && removed_at("k0") && removed_at("k999"), "the oldest is dropped");
    add("k7");
    ok(takes_out("k7", false) && removed_at("k0") && count_removed() == TOKENS_MAX,
       "one of a known name drops none");
    text.len = 0;
    buf_printf(&text, "{\"tokens\": [], \"removed\": {");
    for (int i = 0; i <= TOKENS_MAX; i++)
        buf_printf(&text, "%s\"k%d\": \"2200-01-01T00:00:00Z\"", i ? ", " : "", i);
    buf_printf(&text, "}}");
    struct token_list l;
    struct err e = ERR_INIT;
    ok(token_list_parse(buf_str(&text), text.len, &l, &e) < 0 && strstr(e.msg, "at most 1000"),
       "%s", e.msg);
}

int main(void)
{
    char folder[] = "/tmp/cubby-test-removals.XXXXXX";
    if (!mkdtemp(folder))
        return 1;
    path = str_printf("%s/keys.json", folder);
    test_parse();
    test_parse_bad();
    test_remove();
    test_clock_that_went_back();
    test_limit();
    free(path);
    dir_remove(folder, NULL);
    return tap_done();
}
