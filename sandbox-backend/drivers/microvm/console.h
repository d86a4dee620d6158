// SPDX-License-Identifier: Apache-2.0
// What a guest's last words on its serial console mean.
#pragma once
#include <stddef.h>

// The kernel's reason for its panic, printable and short, as a new string; NULL when the text has
// no panic in it. The text comes from the guest: anything may be in it.
char *console_panic(const char *text, size_t len);

// At most `max` bytes of `s`, up to the end of its line, with '?' for all that is not printable
// ASCII. New string.
char *console_printable(const char *s, size_t len, size_t max);
