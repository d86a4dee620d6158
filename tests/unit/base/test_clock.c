// SPDX-License-Identifier: Apache-2.0
// Time and RFC 3339.
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "tests/lib/harness/tap.h"

#define S 1000000000LL

static void test_format(void)
{
    static const struct {
        int64_t ns;
        const char *text;
    } CASES[] = {
        {0, "1970-01-01T00:00:00Z"},
        {1767323045LL * S, "2026-01-02T03:04:05Z"},
        {1767323045LL * S + 678000000, "2026-01-02T03:04:05.678Z"},
        {1767323045LL * S + 678901000, "2026-01-02T03:04:05.678901Z"},
        {1767323045LL * S + 1, "2026-01-02T03:04:05.000000001Z"},
        {-1, "1969-12-31T23:59:59.999999999Z"},
        {INT64_MAX, "2262-04-11T23:47:16.854775807Z"},
    };
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        char text[CLOCK_RFC3339_BYTES];
        clock_rfc3339(text, CASES[i].ns);
        is_str(text, CASES[i].text, "printed");
        int64_t back = 0;
        ok(clock_parse_rfc3339(text, &back) && back == CASES[i].ns, "and read back");
    }
}

// Times that a file may have.
static void test_any_time(void)
{
    static const struct {
        struct timespec when;
        const char *text;
    } CASES[] = {
        {{10413792000, 5000}, "2300-01-01T00:00:00.000005Z"},
        {{-10413792000, 0}, "1640-01-01T00:00:00Z"},
        {{253402300799, 999999999}, "9999-12-31T23:59:59.999999999Z"},
        {{-62135596800, 1}, "0001-01-01T00:00:00.000000001Z"},
    };
    char text[CLOCK_RFC3339_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        struct timespec back;
        clock_rfc3339_timespec(text, CASES[i].when);
        is_str(text, CASES[i].text, "printed");
        ok(clock_parse_rfc3339_timespec(text, &back) && back.tv_sec == CASES[i].when.tv_sec &&
               back.tv_nsec == CASES[i].when.tv_nsec,
           "and read back");
    }
    clock_rfc3339_timespec(text, (struct timespec){.tv_sec = INT64_MAX});
    is_str(text, "9999-12-31T23:59:59.999999999Z", "the last there is");
    clock_rfc3339_timespec(text, (struct timespec){.tv_sec = INT64_MIN, .tv_nsec = 7});
    is_str(text, "0001-01-01T00:00:00Z", "the first there is");
    static const char *const OUTSIDE[] = {"0000-12-31T00:00:00Z", "0001-01-01T00:00:00+00:01",
                                          "9999-12-31T23:59:59-00:01"};
    struct timespec when;
    for (size_t i = 0; i < ARRAY_LEN(OUTSIDE); i++)
        ok(!clock_parse_rfc3339_timespec(OUTSIDE[i], &when), "not read: %s", OUTSIDE[i]);
}

static void test_parse(void)
{
    static const struct {
        const char *text;
        int64_t ns;
    } GOOD[] = {
        {"2026-01-02T05:04:05+02:00", 1767323045LL * S},
        {"2026-01-01T21:34:05-05:30", 1767323045LL * S},
        {"2026-01-02t03:04:05.5z", 1767323045LL * S + 500000000},
        {"2026-01-02 03:04:05.1234567899Z", 1767323045LL * S + 123456789},
        {"2024-02-29T00:00:00Z", 1709164800LL * S},
        {"2016-12-31T23:59:60Z", 1483228800LL * S},
    };
    static const char *const BAD[] = {"",
                                      "2026-01-02",
                                      "2026-01-02T03:04:05",
                                      "2026-13-02T03:04:05Z",
                                      "2026-00-02T03:04:05Z",
                                      "2026-02-30T03:04:05Z",
                                      "2025-02-29T03:04:05Z",
                                      "2026-01-02T24:04:05Z",
                                      "2026-01-02T03:60:05Z",
                                      "2026-01-02T03:04:61Z",
                                      "2026-01-02T03:04:05.Z",
                                      "2026-01-02T03:04:05+2:00",
                                      "2026-01-02T03:04:05+02:60",
                                      "2026-01-02T03:04:05+24:00",
                                      "2026-01-02T03:04:05Z ",
                                      " 2026-01-02T03:04:05Z",
                                      "2026- 1- 2T 3: 4: 5Z",
                                      "+026-01-02T03:04:05Z",
                                      "2026-01-02T-3:04:05Z",
                                      "9999-01-02T03:04:05Z",
                                      "0001-01-02T03:04:05Z",
                                      "2026-01-02x03:04:05Z",
                                      "2026-01-02T03:04:05+02:00Z"};
    int64_t ns;
    for (size_t i = 0; i < ARRAY_LEN(GOOD); i++)
        ok(clock_parse_rfc3339(GOOD[i].text, &ns) && ns == GOOD[i].ns, "%s", GOOD[i].text);
    for (size_t i = 0; i < ARRAY_LEN(BAD); i++)
        ok(!clock_parse_rfc3339(BAD[i], &ns), "refused: %s", BAD[i]);
}

int main(void)
{
    test_format();
    test_any_time();
    test_parse();
    int64_t a = clock_mono_ms();
    ok(clock_mono_ms() >= a && clock_wall_ns() > 1700000000LL * S, "the clocks go");
    return tap_done();
}
