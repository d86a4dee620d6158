// SPDX-License-Identifier: Apache-2.0
// Figures of the Python kernel in the call log: {"kind": "figure", "of": N, "type", "bytes",
// "data": <base64>}. A picture cannot be masked, so what is drawn in it is not hidden.
//
// The figures in one file of a log have at most half of its bytes, so that they push out no more
// than half of the other lines. One that is not kept has no "data", and "why" instead.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/daemon/calls/call_log.h"

#define CALL_FIGURE_BYTES (128 << 10) // of one figure
#define CALL_FIGURE_CHARS (CALL_FIGURE_BYTES / 3 * 4 + 8)
#define CALL_FIGURES_MAX  16 // of one run

// Write a line for the picture in a result line of the kernel, which belongs to the line `n`.
// `is_cut`: the result was not read as a whole. Return false if it has no picture. Only bytes that
// begin as PNG or JPEG are kept.
bool call_figure_tell(const struct call_place *p, int64_t n, const json_t *result, bool is_cut);
