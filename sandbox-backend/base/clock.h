// SPDX-License-Identifier: Apache-2.0
// Time: a monotonic clock in milliseconds, the wall clock, and RFC 3339 text.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

int64_t clock_mono_ms(void);
int64_t clock_wall_ns(void); // since 1970-01-01 UTC

#define CLOCK_RFC3339_BYTES 40
// Return true if a time in seconds since 1970 is in the years 1 to 9999, the range of RFC 3339 and
// Protocol Buffers.
bool clock_rfc3339_has(int64_t s);
// Write "2026-01-02T03:04:05.678901234Z": 0, 3, 6 or 9 digits of fraction, as few as are exact.
void clock_rfc3339(char out[CLOCK_RFC3339_BYTES], int64_t wall_ns);
// The same for any time, such as a file's. A time outside those years becomes the nearest inside.
void clock_rfc3339_timespec(char out[CLOCK_RFC3339_BYTES], struct timespec when);
// Parse any RFC 3339 time with its offset. False for anything else, and for times outside the range
// of 64-bit nanoseconds (1677 to 2262).
bool clock_parse_rfc3339(const char *s, int64_t *wall_ns);
// The same for the years 1 to 9999 in UTC.
bool clock_parse_rfc3339_timespec(const char *s, struct timespec *when);
