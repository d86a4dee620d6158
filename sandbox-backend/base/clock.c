// SPDX-License-Identifier: Apache-2.0
// Time: a monotonic clock in milliseconds, the wall clock, and RFC 3339 text.
#include "sandbox-backend/base/clock.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define NS_PER_S  1000000000LL
#define NS_PER_MS 1000000LL

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

void clock_rfc3339(char out[CLOCK_RFC3339_BYTES], int64_t wall_ns)
{
    int64_t s = wall_ns / NS_PER_S;
    int64_t frac = wall_ns % NS_PER_S;
    if (frac < 0) {
        frac += NS_PER_S;
        s--;
    }
    time_t when = (time_t)s;
    struct tm tm;
    gmtime_r(&when, &tm);
    size_t n = strftime(out, CLOCK_RFC3339_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
    size_t room = CLOCK_RFC3339_BYTES - n;
    if (frac == 0)
        snprintf(out + n, room, "Z");
    else if (frac % 1000000 == 0)
        snprintf(out + n, room, ".%03dZ", (int)(frac / 1000000));
    else if (frac % 1000 == 0)
        snprintf(out + n, room, ".%06dZ", (int)(frac / 1000));
    else
        snprintf(out + n, room, ".%09dZ", (int)frac);
}

bool clock_parse_rfc3339(const char *s, int64_t *wall_ns)
{
    struct tm tm = {0};
    int used = 0;
    if (sscanf(s, "%4d-%2d-%2d%*1[Tt ]%2d:%2d:%2d%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &used) != 6 ||
        used != 19)
        return false;
    if (tm.tm_mon < 1 || tm.tm_mon > 12 || tm.tm_mday < 1 || tm.tm_mday > 31 || tm.tm_hour > 23 ||
        tm.tm_min > 59 || tm.tm_sec > 60)
        return false;
    s += used;
    int64_t frac = 0;
    if (*s == '.') {
        int64_t unit = NS_PER_S;
        s++;
        if (*s < '0' || *s > '9')
            return false;
        for (; *s >= '0' && *s <= '9'; s++) {
            unit /= 10;
            frac += (*s - '0') * unit; // digits past the ninth add nothing
        }
    }
    int64_t offset_s = 0;
    if (*s == '+' || *s == '-') {
        int hours = 0;
        int minutes = 0;
        int n = 0;
        if (sscanf(s + 1, "%2d:%2d%n", &hours, &minutes, &n) != 2 || n != 5 || s[6])
            return false;
        offset_s = (*s == '-' ? -1 : 1) * (hours * 3600LL + minutes * 60LL);
    } else if (strcmp(s, "Z") != 0 && strcmp(s, "z") != 0) {
        return false;
    }
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *wall_ns = ((int64_t)timegm(&tm) - offset_s) * NS_PER_S + frac;
    return true;
}
