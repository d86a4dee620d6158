// SPDX-License-Identifier: Apache-2.0
// Output of a sandbox that goes to a terminal of the host: whole lines, with the characters that a
// terminal obeys shown as text (base/visible.h). Tabs stay.
#pragma once
#include <stddef.h>

#include "sandbox-backend/base/buf.h"

// Take output, and append to `out` what can be shown. The beginning of a line waits in `rest`, up
// to 4 KiB of it.
void shown_lines_take(struct buf *rest, const char *data, size_t len, struct buf *out);
// Append the last line, if it had no end.
void shown_lines_end(struct buf *rest, struct buf *out);
