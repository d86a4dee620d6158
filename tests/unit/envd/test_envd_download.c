// SPDX-License-Identifier: Apache-2.0
// The headers of a download: Accept-Encoding, Range, and the conditions on a file's version.
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/envd/core/accept_encoding.h"
#include "sandbox-backend/envd/files/representation.h"
#include "tests/lib/harness/tap.h"

static void test_accept_encoding(void)
{
    static const struct {
        const char *header;
        enum coding want;
    } CASES[] = {
        {NULL, CODING_IDENTITY},
        {"", CODING_IDENTITY},
        {"gzip, deflate", CODING_IDENTITY},
        {"gzip;q=1.0", CODING_GZIP},
        {" gzip", CODING_GZIP},
        {"gzip, br", CODING_IDENTITY},
        {"*", CODING_IDENTITY},
        {"identity", CODING_IDENTITY},
        {"br", CODING_IDENTITY},
        {"gzip, identity", CODING_IDENTITY},
        {"gzip;q=0.5, identity;q=0.5", CODING_IDENTITY},
        {"gzip;q=0.4, identity;q=0.5", CODING_IDENTITY},
        {"*;q=0, identity", CODING_IDENTITY},
        {"gzip;q=0, *", CODING_IDENTITY},
        {"identity;q=0.001", CODING_IDENTITY},
        {"identity;q=0.5, gzip", CODING_GZIP},
        {"gzip;q=1.0, identity; q=0.5, *;q=0", CODING_GZIP},
        {" GZip ;q=0.9 ,\tIdentity ;Q=0.899", CODING_GZIP},
        {"x-gzip, identity;q=0.1", CODING_GZIP},
        {"identity;q=0.1, *;q=0.5", CODING_GZIP},
        {"gzip, identity;q=0", CODING_GZIP_ONLY},
        {"gzip, *;q=0", CODING_GZIP_ONLY},
        {"identity;q=0.000, *", CODING_GZIP_ONLY},
        {"identity;q=0", CODING_NONE},
        {"*;q=0", CODING_NONE},
        {"*;q=0.0,", CODING_NONE},
        {"deflate, br;q=1, *;q=0", CODING_NONE},
        {"gzip;q=0, identity;q=0", CODING_NONE},
        {"identity;q=0, gzip;q=2", CODING_NONE},
        {"identity;q=zero", CODING_IDENTITY},
        {"identity;q=0.0001, gzip", CODING_IDENTITY},
        {"gzip;level=9", CODING_IDENTITY},
        {",,;,", CODING_IDENTITY},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++)
        is_int(accept_encoding(CASES[i].header), CASES[i].want, "%s",
               CASES[i].header ? CASES[i].header : "no header");
}

static void test_byte_range(void)
{
    static const struct {
        const char *header;
        int64_t size;
        enum byte_range want;
        int64_t from, len;
    } CASES[] = {
        {NULL, 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=0-0", 10, BYTE_RANGE_PART, 0, 1},
        {"Bytes=1-2", 10, BYTE_RANGE_PART, 1, 2},
        {"bytes=8-", 10, BYTE_RANGE_PART, 8, 2},
        {"bytes=-3", 10, BYTE_RANGE_PART, 7, 3},
        {"bytes=-30", 10, BYTE_RANGE_PART, 0, 10},
        {"bytes=5-99", 10, BYTE_RANGE_PART, 5, 5},
        {"bytes=5-99999999999999999999999", 10, BYTE_RANGE_PART, 5, 5},
        {"bytes=-99999999999999999999999", 10, BYTE_RANGE_PART, 0, 10},
        {"bytes=9223372036854775806-9223372036854775807", INT64_MAX, BYTE_RANGE_PART, INT64_MAX - 1,
         1},
        {"bytes=10-", 10, BYTE_RANGE_OUTSIDE, 0, 0},
        {"bytes=99999999999999999999999-", 10, BYTE_RANGE_OUTSIDE, 0, 0},
        {"bytes=-0", 10, BYTE_RANGE_OUTSIDE, 0, 0},
        {"bytes=0-", 0, BYTE_RANGE_NONE, 0, 0},
        {"bytes=-1", 0, BYTE_RANGE_NONE, 0, 0},
        {"bytes=2-1", 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=1-2,4-5", 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=", 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=-", 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=1", 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=a-b", 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=1-2 ", 10, BYTE_RANGE_NONE, 0, 0},
        {"bytes=--1", 10, BYTE_RANGE_NONE, 0, 0},
        {"lines=1-2", 10, BYTE_RANGE_NONE, 0, 0},
        {"b", 10, BYTE_RANGE_NONE, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        int64_t from = 0;
        int64_t len = 0;
        const char *name = CASES[i].header ? CASES[i].header : "no header";
        is_int(byte_range_parse(CASES[i].header, CASES[i].size, &from, &len), CASES[i].want, "%s",
               name);
        is_int(from, CASES[i].from, "%s: from", name);
        is_int(len, CASES[i].len, "%s: length", name);
    }
}

// ---- versions

static const struct stat FILE_STAT = {
    .st_ino = 0x2A, .st_size = 10, .st_mtim = {.tv_sec = 784111777, .tv_nsec = 5}};
#define DATE       "Sun, 06 Nov 1994 08:49:37 GMT"
#define DATE_850   "Sunday, 06-Nov-94 08:49:37 GMT"
#define DATE_C     "Sun Nov  6 08:49:37 1994"
#define DATE_AFTER "Sun, 06 Nov 1994 08:49:38 GMT"
#define DATE_OLD   "Sun, 06 Nov 1994 08:49:36 GMT"

static struct validator settled(void)
{
    struct validator v;
    validator_init(&v, &FILE_STAT, "", &(struct timespec){.tv_sec = 784111777 + 100});
    return v;
}

static struct validator fresh(void)
{
    struct validator v;
    validator_init(&v, &FILE_STAT, "", &(struct timespec){.tv_sec = 784111777});
    return v;
}

static void test_validators(void)
{
    struct validator v = settled();
    is_str(v.date, DATE, "the date");
    ok(v.etag[0] == '"' && !v.is_weak, "strong: %s", v.etag);
    struct validator w = fresh();
    ok(strncmp(w.etag, "W/", 2) == 0 && w.is_weak, "weak while it is fresh: %s", w.etag);
    is_str(w.etag + 2, v.etag, "and the same otherwise");
    validator_init(&w, &FILE_STAT, "gzip", &(struct timespec){.tv_sec = 784111777 + 100});
    ok(strstr(w.etag, "-gzip\"") != NULL, "another when it is coded: %s", w.etag);
    struct stat later = FILE_STAT;
    later.st_mtim.tv_nsec = 6;
    validator_init(&w, &later, "", &(struct timespec){.tv_sec = 784111777 + 100});
    ok(strcmp(w.etag, v.etag) != 0, "another a nanosecond later");
}

static void evaluates(const struct validator *v, struct validator_conditions c, int want,
                      const char *what)
{
    is_int(validator_evaluate(v, &c), want, "%s", what);
}

#define IF(...) ((struct validator_conditions){__VA_ARGS__})

static void test_conditions(void)
{
    struct validator v = settled();
    struct validator w = fresh();
    char list[200];
    snprintf(list, sizeof list, "\"x\" , W/%s", v.etag);
    evaluates(&v, IF(0), 200, "no condition");
    evaluates(&v, IF(.if_none_match = v.etag), 304, "the same tag");
    evaluates(&v, IF(.if_none_match = list), 304, "one of a list, weakly compared");
    evaluates(&w, IF(.if_none_match = v.etag), 304, "a weak one");
    evaluates(&v, IF(.if_none_match = "*"), 304, "any version");
    evaluates(&v, IF(.if_none_match = "\"x\""), 200, "another tag");
    evaluates(&v, IF(.if_none_match = "x"), 200, "no tag");
    evaluates(&v, IF(.if_none_match = "\"x\"", .if_modified_since = DATE), 200,
              "the tag counts, not the date");
    evaluates(&v, IF(.if_modified_since = DATE), 304, "not modified since");
    evaluates(&v, IF(.if_modified_since = DATE_850), 304, "in the form of RFC 850");
    evaluates(&v, IF(.if_modified_since = DATE_C), 304, "in the form of asctime");
    evaluates(&v, IF(.if_modified_since = DATE_AFTER), 304, "a later date");
    evaluates(&v, IF(.if_modified_since = DATE_OLD), 200, "modified since");
    evaluates(&v, IF(.if_modified_since = "yesterday"), 200, "no date");
    evaluates(&v, IF(.if_modified_since = DATE " x"), 200, "more than a date");
    evaluates(&v, IF(.if_match = v.etag), 200, "If-Match with the tag");
    evaluates(&v, IF(.if_match = "*"), 200, "with any");
    evaluates(&v, IF(.if_match = list), 412, "with a weak one: strongly compared");
    evaluates(&w, IF(.if_match = w.etag), 412, "with the weak one that it has");
    evaluates(&v, IF(.if_match = "\"x\""), 412, "with another");
    evaluates(&v, IF(.if_match = ""), 412, "with none");
    evaluates(&v, IF(.if_unmodified_since = DATE), 200, "unmodified since");
    evaluates(&v, IF(.if_unmodified_since = DATE_OLD), 412, "modified since");
    evaluates(&v, IF(.if_match = v.etag, .if_unmodified_since = DATE_OLD), 200,
              "the tag counts, not the date");
    evaluates(&v, IF(.if_match = v.etag, .if_none_match = v.etag), 304, "both");
}

static void test_if_range(void)
{
    struct validator v = settled();
    struct validator w = fresh();
    ok(validator_allows_range(&v, NULL), "no If-Range");
    ok(validator_allows_range(&v, v.etag), "its tag");
    ok(!validator_allows_range(&w, w.etag), "a weak tag is not certain");
    ok(!validator_allows_range(&v, "\"x\""), "another tag");
    ok(!validator_allows_range(&v, "*"), "no tag");
    ok(validator_allows_range(&v, DATE), "its date");
    ok(!validator_allows_range(&w, DATE), "its date while it is fresh");
    ok(!validator_allows_range(&v, DATE_AFTER), "a later date is not its date");
    ok(!validator_allows_range(&v, ""), "nothing");
}

static void test_media_types(void)
{
    is_str(media_type_of("a.HTML"), "text/html; charset=utf-8", "by the extension, of any case");
    is_str(media_type_of("a.tar.gz"), "application/gzip", "by the last one");
    is_str(media_type_of("html"), "application/octet-stream", "not by the name");
    is_str(media_type_of("a."), "application/octet-stream", "nor by nothing");
    is_str(media_type_of("a.unknown"), "application/octet-stream", "nor by what is unknown");
}

int main(void)
{
    test_accept_encoding();
    test_byte_range();
    test_validators();
    test_conditions();
    test_if_range();
    test_media_types();
    return tap_done();
}
