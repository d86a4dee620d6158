// SPDX-License-Identifier: Apache-2.0
// Test Anything Protocol for C units. A failing check prints both sides and the test goes on.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define ok(cond, ...)     tap_ok((cond), __FILE__, __LINE__, #cond, __VA_ARGS__)
#define is_int(a, b, ...) tap_int((int64_t)(a), (int64_t)(b), __FILE__, __LINE__, __VA_ARGS__)
#define is_str(a, b, ...) tap_str((a), (b), __FILE__, __LINE__, __VA_ARGS__)

bool tap_ok(bool pass, const char *file, int line, const char *cond, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
bool tap_int(int64_t got, int64_t want, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
bool tap_str(const char *got, const char *want, const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
int tap_done(void); // prints the plan; the exit status of main
