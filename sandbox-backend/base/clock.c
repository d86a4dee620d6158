// SPDX-License-Identifier: Apache-2.0
// Time: a monotonic clock in milliseconds, the wall clock, and RFC 3339 text.
#include "sandbox-backend/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_S  1000000000LL
#define NS_PER_MS 1000000LL

#define YEAR_1_S     (-62135596800LL) // 0001-01-01, since 1970
#define YEAR_10000_S 253402300800LL

int64_t clock_mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / NS_PER_MS;
}

int64_t clock_wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

bool clock_rfc3339_has(int64_t s)
{
    return s >= YEAR_1_S && s < YEAR_10000_S;
}

void clock_rfc3339(char out[CLOCK_RFC3339_BYTES], int64_t wall_ns)
{
    int64_t s = wall_ns / NS_PER_S - (wall_ns % NS_PER_S < 0);
    struct timespec when = {.tv_sec = s};
    when.tv_nsec = wall_ns % NS_PER_S + (wall_ns % NS_PER_S < 0 ? NS_PER_S : 0);
    clock_rfc3339_timespec(out, when);
}

void clock_rfc3339_timespec(char out[CLOCK_RFC3339_BYTES], struct timespec when)
{
    if (when.tv_sec < YEAR_1_S)
        when = (struct timespec){.tv_sec = YEAR_1_S};
    if (when.tv_sec >= YEAR_10000_S)
        when = (struct timespec){.tv_sec = YEAR_10000_S - 1, .tv_nsec = NS_PER_S - 1};
    struct tm tm;
    gmtime_r(&when.tv_sec, &tm);
    // strftime's %Y does not pad.
    size_t n = (size_t)snprintf(out, CLOCK_RFC3339_BYTES, "%04d", tm.tm_year + 1900);
    n += strftime(out + n, CLOCK_RFC3339_BYTES - n, "-%m-%dT%H:%M:%S", &tm);
    size_t room = CLOCK_RFC3339_BYTES - n;
    if (when.tv_nsec == 0)
        snprintf(out + n, room, "Z");
    else if (when.tv_nsec % 1000000 == 0)
        snprintf(out + n, room, ".%03dZ", (int)(when.tv_nsec / 1000000));
    else if (when.tv_nsec % 1000 == 0)
        snprintf(out + n, room, ".%06dZ", (int)(when.tv_nsec / 1000));
    else
        snprintf(out + n, room, ".%09dZ", (int)when.tv_nsec);
}

// Return true if `s` begins with the shape, in which 0 means any digit.
static bool has_shape(const char *s, const char *shape)
{
    for (; *shape; s++, shape++)
        if (*shape == '0' ? *s < '0' || *s > '9' : *s != *shape)
            return false;
    return true;
}

static int month_days(int year, int month)
{
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return DAYS[month - 1] + (month == 2 && leap);
}

static bool parse_date_time(const char *s, struct tm *tm)
{
    bool has_t = strlen(s) > 10 && strchr("Tt ", s[10]);
    if (!has_shape(s, "0000-00-00") || !has_t || !has_shape(s + 11, "00:00:00") ||
        sscanf(s, "%4d-%2d-%2d%*c%2d:%2d:%2d", &tm->tm_year, &tm->tm_mon, &tm->tm_mday,
               &tm->tm_hour, &tm->tm_min, &tm->tm_sec) != 6)
        return false;
    if (tm->tm_mon < 1 || tm->tm_mon > 12 || tm->tm_mday < 1 ||
        tm->tm_mday > month_days(tm->tm_year, tm->tm_mon) || tm->tm_hour > 23 || tm->tm_min > 59 ||
        tm->tm_sec > 60)
        return false;
    tm->tm_year -= 1900;
    tm->tm_mon -= 1;
    return true;
}

// Parse ".123" and move *s past it. False for a point without a digit.
static bool parse_fraction(const char **s, int64_t *ns)
{
    *ns = 0;
    if (**s != '.')
        return true;
    const char *digits = ++*s;
    int64_t unit = NS_PER_S;
    for (; **s >= '0' && **s <= '9'; ++*s) {
        unit /= 10;
        *ns += (**s - '0') * unit; // digits after the ninth add nothing
    }
    return *s > digits;
}

static bool parse_offset(const char *s, int64_t *seconds)
{
    *seconds = 0;
    if (strcmp(s, "Z") == 0 || strcmp(s, "z") == 0)
        return true;
    int hours = 0;
    int minutes = 0;
    if ((*s != '+' && *s != '-') || strlen(s) != 6 || !has_shape(s + 1, "00:00") ||
        sscanf(s + 1, "%2d:%2d", &hours, &minutes) != 2 || hours > 23 || minutes > 59)
        return false;
    *seconds = (*s == '-' ? -1 : 1) * (hours * 3600LL + minutes * 60LL);
    return true;
}

bool clock_parse_rfc3339_timespec(const char *s, struct timespec *when)
{
    struct tm tm = {0};
    int64_t fraction;
    int64_t offset;
    if (!parse_date_time(s, &tm))
        return false;
    s += sizeof "2026-01-02T03:04:05" - 1;
    if (!parse_fraction(&s, &fraction) || !parse_offset(s, &offset))
        return false;
    *when = (struct timespec){.tv_sec = timegm(&tm) - offset, .tv_nsec = fraction};
    return clock_rfc3339_has(when->tv_sec); // an offset may lead outside the range
}

bool clock_parse_rfc3339(const char *s, int64_t *wall_ns)
{
    struct timespec when;
    // 64 bits of nanoseconds reach from 1677 to 2262.
    return clock_parse_rfc3339_timespec(s, &when) &&
           !__builtin_mul_overflow((int64_t)when.tv_sec, NS_PER_S, wall_ns) &&
           !__builtin_add_overflow(*wall_ns, (int64_t)when.tv_nsec, wall_ns);
}
