// SPDX-License-Identifier: Apache-2.0
// The end of a guest's serial console, read for the cause of its end.
#pragma once
#include <stddef.h>

// Return the guest kernel's reason for its panic, printable and short, as a new string; NULL when
// the text has no panic. The text comes from the guest, so it may hold any bytes.
char *console_panic(const char *text, size_t len);
