// SPDX-License-Identifier: Apache-2.0
// What a restored guest must be given before anyone uses it: entropy and the time. Its name:
// names.h. Only for the guest's envd: each of these changes the whole machine.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// Mixes bytes into the kernel's random number generator, counted as entropy, and has it reseed, so
// that two guests of one snapshot share no random number from here on.
int machine_add_entropy(const void *bytes, size_t len, struct err *e);

// Sets the wall clock when it is more than 50 ms behind or 5 s ahead of `wall_ns`.
int machine_set_clock(int64_t wall_ns, struct err *e);

// At envd's start, once. Keeps envd alive when memory runs out (the kernel takes a command first),
// and opens what the others need, so that they do it without looking up a path: under emulation the
// first look-up after a restore costs as much as the rest of them.
void machine_prepare(void);
