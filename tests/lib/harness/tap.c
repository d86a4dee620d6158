// SPDX-License-Identifier: Apache-2.0
// Test Anything Protocol for C units.
#include "tests/lib/harness/tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int count;
static int failed;

static bool report(bool pass, const char *fmt, va_list ap)
{
    printf("%sok %d - ", pass ? "" : "not ", ++count);
    vprintf(fmt, ap);
    putchar('\n');
    failed += !pass;
    return pass;
}

bool tap_ok(bool pass, const char *file, int line, const char *cond, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(pass, fmt, ap);
    va_end(ap);
    if (!pass)
        printf("# %s:%d: false: %s\n", file, line, cond);
    fflush(stdout);
    return pass;
}

bool tap_int(int64_t got, int64_t want, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    report(got == want, fmt, ap);
    va_end(ap);
    if (got != want)
        printf("# %s:%d: got %lld, want %lld\n", file, line, (long long)got, (long long)want);
    fflush(stdout);
    return got == want;
}

bool tap_str(const char *got, const char *want, const char *file, int line, const char *fmt, ...)
{
    bool pass = got == want || (got && want && strcmp(got, want) == 0);
    va_list ap;
    va_start(ap, fmt);
    report(pass, fmt, ap);
    va_end(ap);
    if (!pass)
        printf("# %s:%d: got \"%s\", want \"%s\"\n", file, line, got ? got : "(null)",
               want ? want : "(null)");
    fflush(stdout);
    return pass;
}

int tap_done(void)
{
    printf("1..%d\n", count);
    return failed ? 1 : 0;
}
