// SPDX-License-Identifier: Apache-2.0
// Time: a monotonic clock in milliseconds, the wall clock, and RFC 3339 text.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

int64_t clock_mono_ms(void);
int64_t clock_wall_ns(void); // since 1970-01-01 UTC

#define CLOCK_RFC3339_BYTES 40
// Whether a time, in seconds since 1970, is one of the years 1 to 9999 that RFC 3339 and Protocol
// Buffers have.
bool clock_rfc3339_has(int64_t s);
// "2026-01-02T03:04:05.678901234Z": 0, 3, 6 or 9 digits of fraction, as few as say it all.
void clock_rfc3339(char out[CLOCK_RFC3339_BYTES], int64_t wall_ns);
// The same for any time, as a file may have it: one outside those years becomes the nearest inside.
void clock_rfc3339_timespec(char out[CLOCK_RFC3339_BYTES], struct timespec when);
// Any RFC 3339 time, with its offset; false for anything else, and for times that nanoseconds in 64
// bits do not reach (before 1677, after 2262).
bool clock_parse_rfc3339(const char *s, int64_t *wall_ns);
// The same, for the years 1 to 9999 in UTC.
bool clock_parse_rfc3339_timespec(const char *s, struct timespec *when);
