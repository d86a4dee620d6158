// SPDX-License-Identifier: Apache-2.0
// Bearer tokens: their file, the valid tokens, and the rate of a caller.
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mcp-server/auth/caller.h"
#include "mcp-server/auth/tokens.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/keys/sha256.h"
#include "sandbox-backend/keys/token_file.h"
#include "sandbox-backend/log/log.h"
#include "tests/lib/harness/tap.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"
#define XYZ "3608bca1e44ea6c4d268eb6db02260269892c0b42b86bbf1e77a6fa16c3c9282" // of "xyz"

static char folder[] = "/tmp/cubby-test-tokens.XXXXXX";

static char *path_of(const char *name)
{
    return str_printf("%s/%s", folder, name);
}

static void write_file(const char *path, const char *text)
{
    struct err e = ERR_INIT;
    if (file_write_atomic(path, text, strlen(text), 0600, &e) < 0)
        ok(false, "%s", e.msg);
}

static void test_sha256(void)
{
    struct sha256 abc = sha256_of("abc", 3);
    struct sha256 read;
    ok(sha256_from_hex(ABC, &read) && sha256_equal(&abc, &read), "of abc");
    ok(sha256_from_hex("BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD", &read) &&
           sha256_equal(&abc, &read),
       "upper case");
    abc.bytes[31] ^= 1;
    ok(!sha256_equal(&abc, &read), "one bit matters");
    ok(!sha256_from_hex("ba78", &read), "too short");
    ok(!sha256_from_hex(ABC "0", &read), "too long");
    ok(!sha256_from_hex("ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", &read),
       "not a digit");
}

static void test_rate(void)
{
    struct rate r;
    rate_init(&r, 3, 0);
    ok(!rate_take(&r, 0) && !rate_take(&r, 0) && !rate_take(&r, 0), "a burst of three");
    is_int(rate_take(&r, 0), 20, "then twenty seconds for one");
    is_int(rate_take(&r, 19001), 1, "nearly there: a whole second at least");
    is_int(rate_take(&r, 20000), 0, "one");
    is_int(rate_take(&r, 20000), 20, "and no more");
    is_int(rate_take(&r, 10), 20, "a clock that went back gives nothing");
    rate_init(&r, 0, 0);
    is_int(rate_take(&r, 0), 0, "0 is no limit");
    rate_init(&r, 10000000, 0);
    is_int(rate_take(&r, INT64_MAX / 2), 0, "a long time does not overflow");
    rate_init(&r, 2, 0);
    rate_take(&r, 0);
    rate_set(&r, 1, 0);
    ok(rate_take(&r, 0) > 0, "what was used stays used under a lower limit");
    rate_set(&r, 3, 0);
    ok(!rate_take(&r, 0) && !rate_take(&r, 0) && rate_take(&r, 0) > 0, "and under a higher one");
}

static void test_parse(void)
{
    static const char GOOD[] =
        "{\"tokens\": [{\"name\": \"ci\", \"sha256\": \"" ABC "\"},\n"
        "{\"name\": \"me@x.org\", \"sha256\": \"" XYZ "\", \"max_sandboxes\": 3,\n"
        "\"calls_per_minute\": 60, \"expires\": \"2001-01-01T00:00:00Z\"}]}";
    struct token_list l;
    struct err e = ERR_INIT;
    is_int(token_list_parse(GOOD, sizeof GOOD - 1, &l, &e), 0, "a good file: %s", e.msg);
    is_int(l.count, 2, "two tokens");
    ok(l.items[0].max_sandboxes == -1 && l.items[0].calls_per_minute == -1 &&
           l.items[0].expires_ns == INT64_MAX,
       "limits that are not said");
    ok(l.items[1].max_sandboxes == 3 && l.items[1].calls_per_minute == 60 &&
           l.items[1].expires_ns == 978307200000000000LL,
       "and those that are");
    token_list_fini(&l);
}

static void test_parse_bad(void)
{
#define ENTRY(rest) "{\"tokens\": [\n{\"name\": \"a\", \"sha256\": \"" ABC "\"},\n\n{" rest "}]}"
    static const struct {
        const char *text, *says;
    } BAD[] = {
        {"", "line 1"},
        {"[]", "it must be"},
        {"{\"tokens\": {}}", "it must be"},
        {"{\"tokens\": [], \"user\": 1}", "unknown key \"user\""},
        {"{\"tokens\":\n[\n}", "line 3"},
        {ENTRY("\"name\": \"b\""), "line 4: sha256 of \"b\""},
        {ENTRY("\"sha256\": \"" XYZ "\""), "line 4: name must be"},
        {ENTRY("\"name\": \"b b\", \"sha256\": \"" XYZ "\""), "line 4: name must be"},
        {ENTRY("\"name\": 7, \"sha256\": \"" XYZ "\""), "line 4: name must be a string"},
        {ENTRY("\"name\": \"b\", \"sha256\": \"" XYZ "\", \"token\": \"x\""), "key \"token\""},
        {ENTRY("\"name\": \"b\", \"sha256\": \"" XYZ "\", \"max_sandboxes\": -1"), "max_sandboxes"},
        {ENTRY("\"name\": \"b\", \"sha256\": \"" XYZ "\", \"calls_per_minute\": \"9\""),
         "calls_per_minute must be an integer"},
        {ENTRY("\"name\": \"b\", \"sha256\": \"" XYZ "\", \"expires\": \"soon\""), "expires"},
        {ENTRY("\"name\": \"a\", \"sha256\": \"" XYZ "\""), "the same name or hash as \"a\""},
        {ENTRY("\"name\": \"b\", \"sha256\": \"" ABC "\""), "the same name or hash as \"a\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct token_list l;
        struct err e = ERR_INIT;
        ok(token_list_parse(BAD[i].text, strlen(BAD[i].text), &l, &e) == -1 && !l.items &&
               strstr(e.msg, BAD[i].says),
           "%s", e.msg);
    }
}

static void test_writers(void)
{
    char *path auto_free = path_of("modes");
    struct token_list l;
    struct err e = ERR_INIT;
    is_int(token_file_read(path, &l, &e), -1, "no file: %s", e.msg);
    is_int(e.code, ERR_NOT_FOUND, "is not found");
    write_file(path, "{\"tokens\": []}");
    static const struct {
        mode_t mode;
        bool fine;
    } MODES[] = {{0600, true}, {0640, true}, {0644, true}, {0660, false}, {0602, false}};
    for (size_t i = 0; i < ARRAY_LEN(MODES); i++) {
        e = ERR_INIT;
        chmod(path, MODES[i].mode);
        bool fine = token_file_read(path, &l, &e) == 0;
        ok(fine == MODES[i].fine && (fine || e.code == ERR_DENIED), "mode %o %s", MODES[i].mode,
           e.msg);
        token_list_fini(&l);
    }
}

static void test_add(void)
{
    char *path auto_free = path_of("made");
    struct err e = ERR_INIT;
    struct stat st;
    char *one auto_free = token_file_add(path, "one", &TOKEN_BEARER, &e);
    char *two auto_free = token_file_add(path, "two", &TOKEN_BEARER, &e);
    ok(one && two && strlen(one) == 6 + 64 && str_starts(one, "cubby_"), "two tokens %s", e.msg);
    ok(!str_eq(one, two), "which differ");
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600, "in a file for its owner only");
    struct buf text auto_buf = BUF_INIT;
    file_read(path, 10000, &text, &e);
    ok(!strstr(buf_str(&text), one + 6), "the token itself is not in it");
    ok(!token_file_add(path, "one", &TOKEN_BEARER, &e) && e.code == ERR_EXISTS,
       "a name is taken once: %s", e.msg);
    e = ERR_INIT;
    ok(!token_file_add(path, "not a name", &TOKEN_BEARER, &e) && e.code == ERR_INVALID, "%s",
       e.msg);
    struct token_list l;
    e = ERR_INIT;
    is_int(token_file_read(path, &l, &e), 0, "it can be read %s", e.msg);
    struct sha256 digest = sha256_of(two, strlen(two));
    ok(l.count == 2 && str_eq(l.items[1].name, "two") && sha256_equal(&l.items[1].digest, &digest),
       "and holds both");
    token_list_fini(&l);
    chmod(path, 0640);
    char *three auto_free = token_file_add(path, "three", &TOKEN_BEARER, &e);
    ok(three && stat(path, &st) == 0 && (st.st_mode & 0777) == 0640, "its mode is kept");
    e = ERR_INIT;
    is_int(token_file_remove(path, "two", true, &e), 0, "one is taken out %s", e.msg);
    is_int(token_file_read(path, &l, &e), 0, "what is left can be read");
    ok(l.count == 2 && str_eq(l.items[1].name, "three"), "and lacks it");
    token_list_fini(&l);
    ok(token_file_remove(path, "two", true, &e) == -1 && e.code == ERR_NOT_FOUND, "once: %s",
       e.msg);
    e = ERR_INIT;
    char *key auto_free = token_file_add(path, "key", &TOKEN_API_KEY, &e);
    ok(key && strlen(key) == 4 + 40 && str_starts(key, "e2b_"), "an API key %s", e.msg);
    write_file(path, "{\"tokens\": oops}");
    ok(!token_file_add(path, "four", &TOKEN_BEARER, &e) && strstr(e.msg, "line 1"),
       "broken: untouched: %s", e.msg);
}

static struct caller *find(struct tokens *t, const char *token, int64_t now_ms)
{
    int64_t until_ns;
    struct sha256 digest = sha256_of(token, strlen(token));
    return tokens_find(t, &digest, now_ms, &until_ns);
}

// What only cubbyd keeps would be taken for a limit here.
static void test_foreign_limits(void)
{
    static const char *const MEMBERS[] = {"max_snapshots", "max_disk_mb", "max_ports",
                                          "max_builds"};
    char *path auto_free = path_of("foreign");
    for (size_t i = 0; i < ARRAY_LEN(MEMBERS); i++) {
        struct err e = ERR_INIT;
        char *text auto_free = str_printf(
            "{\"tokens\": [{\"name\": \"a\", \"sha256\": \"" ABC "\", \"%s\": 0}]}", MEMBERS[i]);
        write_file(path, text);
        ok(!tokens_new(path, 5, 0, &e), "%s is refused", MEMBERS[i]);
        ok(e.code == ERR_INVALID && strstr(e.msg, MEMBERS[i]) && strstr(e.msg, "\"a\"") &&
               strstr(e.msg, path),
           "and named: %s", e.msg);
    }
}

static void test_sizes(void)
{
    char *path auto_free = path_of("sizes");
    struct err e = ERR_INIT;
    int64_t now = clock_mono_ms();
    write_file(path, "{\"tokens\": [{\"name\": \"a\", \"sha256\": \"" ABC
                     "\", \"max_cpus\": 3, \"max_memory_mb\": 700, \"max_timeout\": 60}]}");
    struct tokens *t = tokens_new(path, 5, 0, &e);
    const struct caller *a = t ? find(t, "abc", now) : NULL;
    ok(a && a->max_cpus == 3 && a->max_memory_mb == 700 && a->max_timeout_s == 60,
       "sizes of a token %s", e.msg);
    tokens_free(t);
    is_int(caller_most(3, 2), 2, "the option is smaller");
    is_int(caller_most(3, 4), 3, "the token's is smaller");
    is_int(caller_most(-1, 4), 4, "only the option");
    is_int(caller_most(3, 0), 3, "only the token's");
    is_int(caller_most(0, 0), 0, "none");
    is_int(caller_most(-1, 0), 0, "none, and none said");
}

static void test_reload(void)
{
    char *path auto_free = path_of("live");
    struct err e = ERR_INIT;
    int64_t now = clock_mono_ms();
    write_file(path, "{\"tokens\": [{\"name\": \"a\", \"sha256\": \"" ABC
                     "\", \"calls_per_minute\": 1}]}");
    struct tokens *t = tokens_new(path, 5, 0, &e);
    ok(t != NULL, "in force %s", e.msg);
    struct caller *a = caller_hold(find(t, "abc", now));
    ok(str_eq(a->owner, "token:a") && a->max_sandboxes == 5, "a caller with the usual limit");
    ok(!find(t, "xyz", now) && !find(t, "", now) && !find(t, ABC, now), "others have none");
    is_int(rate_take(&a->calls, now), 0, "one call");

    write_file(path,
               "{\"tokens\": [{\"name\": \"a\", \"sha256\": \"" XYZ "\", \"max_sandboxes\": 0, "
               "\"calls_per_minute\": 1}]}");
    ok(find(t, "abc", now + 10) == a, "within a second nothing is looked at");
    now += 2000;
    ok(!find(t, "abc", now) && a->revoked, "the old token is out, and what is open for it ends");
    struct caller *x = caller_hold(find(t, "xyz", now));
    ok(caller_is_same(x, a) && x != a, "what belongs to the name is the new one's");
    ok(x->max_sandboxes == 0 && !x->revoked, "with its new limits");
    ok(rate_take(&x->calls, now) > 0, "and what was used of the rate");
    now += 2000;
    write_file(path, "{\"tokens\": [{\"name\": \"a\", \"sha256\": \"" XYZ "\"}]}");
    ok(find(t, "xyz", now) == x && !x->revoked, "with other limits it is the same");

    now += 2000;
    log_set_level(LOG_ERROR);
    write_file(path, "{\"tokens\": [{]}");
    ok(find(t, "xyz", now) == x, "a broken file changes nothing");
    now += 2000;
    unlink(path);
    ok(find(t, "xyz", now) == x, "nor does one that is gone");
    now += 2000;
    write_file(path, "{\"tokens\": [{\"name\": \"b\", \"sha256\": \"" ABC "\", "
                     "\"expires\": \"2001-01-01T00:00:00Z\"}]}");
    ok(!find(t, "xyz", now) && x->revoked, "a removed token is out at once");
    int64_t until_ns;
    struct sha256 digest = sha256_of("abc", 3);
    ok(!tokens_find(t, &digest, now, &until_ns) && until_ns < INT64_MAX,
       "an expired one is out, and told so");
    now += 2000;
    write_file(path, "{\"tokens\": [{\"name\": \"b\", \"sha256\": \"" ABC "\", "
                     "\"expires\": \"2101-01-01T00:00:00Z\"}]}");
    struct caller *b = tokens_find(t, &digest, now, &until_ns);
    ok(b && !b->revoked && until_ns < INT64_MAX, "one that is given more time is good, until then");
    now += 2000;
    write_file(path, "{\"tokens\": [{\"name\": \"b\", \"sha256\": \"" ABC "\", "
                     "\"expires\": \"2001-01-01T00:00:00Z\"}]}");
    tokens_refresh(t, now);
    ok(b->revoked, "what is open for an expired one must end");
    caller_release(a);
    caller_release(x);
    tokens_free(t);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    test_sha256();
    test_rate();
    test_parse();
    test_parse_bad();
    test_writers();
    test_add();
    test_foreign_limits();
    test_sizes();
    test_reload();
    dir_remove(folder, NULL);
    return tap_done();
}
