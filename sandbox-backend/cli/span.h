// SPDX-License-Identifier: Apache-2.0
// A length of time, for people.
#pragma once
#include <stdint.h>

// New string: "45s", "3m12s", "2h05m", "4d3h"; the two units that matter.
char *span_text(int64_t seconds);
