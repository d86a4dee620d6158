// SPDX-License-Identifier: Apache-2.0
// Command-line options.
#include <stdlib.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/opts.h"
#include "tests/lib/harness/tap.h"

static struct {
    bool flag;
    const char *text;
    int64_t number, size;
    struct opt_list list;
} got;

static const struct opt TABLE[] = {
    {.name = "flag", .env = "TEST_OPT_FLAG", .type = OPT_FLAG, .value = &got.flag, .help = "F"},
    {.name = "text",
     .env = "TEST_OPT_TEXT",
     .type = OPT_STRING,
     .value = &got.text,
     .arg = "A",
     .help = "T",
     .choices = "auto|kvm|tcg"},
    {.name = "number",
     .type = OPT_INT,
     .value = &got.number,
     .arg = "N",
     .help = "N",
     .min = 1,
     .max = 10},
    {.name = "size", .type = OPT_SIZE, .value = &got.size, .arg = "SIZE", .help = "S"},
    {.name = "list", .type = OPT_LIST, .value = &got.list, .arg = "X", .help = "L"},
};

static char *argv[40];
static int argc;

// Parses the words of a line; returns what opts_parse does.
static int parse(const char *line, bool stop, struct err *e)
{
    static char words[400];
    memset(&got, 0, sizeof got);
    snprintf(words, sizeof words, "prog %s", line);
    argc = 0;
    for (char *w = strtok(words, " "); w; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    *e = ERR_INIT;
    return opts_parse(TABLE, ARRAY_LEN(TABLE), &argc, argv, stop, e);
}

static void test_good(void)
{
    struct err e;
    is_int(parse("a --flag --text kvm b --number=7 --size 2G --list x --list=y c", false, &e), 0,
           "all kinds: %s", e.msg);
    ok(got.flag && strcmp(got.text, "kvm") == 0 && got.number == 7, "flag, text, number");
    is_int(got.size, 2LL << 30, "size");
    ok(got.list.count == 2 && strcmp(got.list.items[1], "y") == 0, "list");
    ok(argc == 4 && strcmp(argv[1], "a") == 0 && strcmp(argv[3], "c") == 0 && !argv[4],
       "operands are left, in order");
    is_int(parse("a -- --flag", false, &e), 0, "after -- nothing is an option");
    ok(!got.flag && argc == 3 && strcmp(argv[2], "--flag") == 0, "but an operand");
    is_int(parse("--flag exec --text nonsense", true, &e), 0, "the first operand ends the options");
    ok(got.flag && argc == 4 && strcmp(argv[2], "--text") == 0, "the rest is left");
    is_int(parse("- x", false, &e), 0, "a lone dash is an operand");
    is_int(argc, 3, "so there are two");
    static const struct {
        const char *text;
        int64_t bytes;
    } SIZES[] = {{"--size 1024", 1024},
                 {"--size 1K", 1024},
                 {"--size 512M", 512LL << 20},
                 {"--size 1T", 1LL << 40},
                 {"--size 0", 0}};
    for (size_t i = 0; i < ARRAY_LEN(SIZES); i++)
        ok(parse(SIZES[i].text, false, &e) == 0 && got.size == SIZES[i].bytes, "%s", SIZES[i].text);
}

static void test_bad(void)
{
    static const char *const BAD[] = {
        "--nothing",
        "--flag=1",
        "--text",
        "--text other",
        "--text auto|kvm",
        "--number 0",
        "--number 11",
        "--number x",
        "--number",
        "--size 5Q",
        "--size -1",
        "--size K",
        "--size 9999999999T",
        "-x",
        "--fla",
        "--flags",
        "--text=",
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++) {
        struct err e;
        ok(parse(BAD[i], false, &e) == -1 && e.code == ERR_INVALID, "%s: %s", BAD[i], e.msg);
    }
}

static void test_environment(void)
{
    struct err e;
    setenv("TEST_OPT_TEXT", "tcg", 1);
    setenv("TEST_OPT_FLAG", "1", 1);
    ok(parse("", false, &e) == 0 && strcmp(got.text, "tcg") == 0 && got.flag, "from there");
    ok(parse("--text kvm", false, &e) == 0 && strcmp(got.text, "kvm") == 0, "the option wins");
    setenv("TEST_OPT_FLAG", "0", 1);
    ok(parse("", false, &e) == 0 && !got.flag, "0 is no flag");
    setenv("TEST_OPT_TEXT", "bad", 1);
    is_int(parse("", false, &e), -1, "a bad one is told by its name: %s", e.msg);
    unsetenv("TEST_OPT_TEXT");
    unsetenv("TEST_OPT_FLAG");
}

static int load(const char *text, struct err *e)
{
    *e = ERR_INIT;
    memset(&got, 0, sizeof got);
    json_t *values = json_parse(text, strlen(text), e);
    int rc = opts_load(TABLE, ARRAY_LEN(TABLE), values, "FILE", e);
    json_decref(values);
    return rc;
}

static void test_file(void)
{
    struct err e;
    is_int(load("{\"flag\": true, \"number\": 3, \"size\": \"2K\", \"list\": [\"a\", \"b\"]}", &e),
           0, "a file: %s", e.msg);
    ok(got.flag && got.number == 3 && got.size == 2048 && got.list.count == 2, "its values");
    ok(load("{\"flag\": false, \"size\": 5}", &e) == 0 && !got.flag && got.size == 5, "others");
    static const char *const BAD[] = {
        "7",
        "{\"Flag\": true}",
        "{\"number\": 11}",
        "{\"number\": \"3\"}",
        "{\"flag\": 1}",
        "{\"text\": \"other\"}",
        "{\"text\": null}",
        "{\"size\": \"5Q\"}",
        "{\"size\": -1.5}",
        "{\"list\": \"a\"}",
        "{\"list\": [\"\"]}",
        "{\"list\": [\"a\", {}]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        ok(load(BAD[i], &e) == -1 && e.code == ERR_INVALID && strstr(e.msg, "FILE"), "%s: %s",
           BAD[i], e.msg);
}

static void test_help(void)
{
    char *text = NULL;
    size_t len = 0;
    FILE *to = open_memstream(&text, &len);
    opts_help(to, TABLE, ARRAY_LEN(TABLE));
    fclose(to);
    ok(strstr(text, "--number N") && strstr(text, "[TEST_OPT_TEXT]"), "the help lists them");
    free(text);
}

int main(void)
{
    test_good();
    test_bad();
    test_environment();
    test_file();
    test_help();
    return tap_done();
}
