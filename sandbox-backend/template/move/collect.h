// SPDX-License-Identifier: Apache-2.0
// Garbage collection: what builds keep so that the next build is quick (layers, hidden templates),
// what interrupted builds and imports left, and what belongs to templates that are gone.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct collect_spec {
    const char *home;
    int64_t unused_s;  // remove what was not used for so long
    int64_t bytes_max; // then remove the least recently used until the rest is no larger,
    int64_t count_max; // and has no more layers and hidden templates than this
    bool dry_run;      // only report
};

struct collect_item {
    const char *kind; // "layer", "hidden template", "unfinished build", "import", "log",
                      // "files of the system's template"
    const char *name;
    int64_t bytes;
    int64_t used; // Unix seconds
};

#define COLLECT_UNUSED_S  (30 * 24 * 3600LL)
#define COLLECT_BYTES_MAX (20LL << 30)
#define COLLECT_COUNT_MAX 500

// Remove what belongs to templates that are gone: layers, and what this home keeps about a template
// of the system; also what interrupted builds and imports left. With `is_full` also what
// COLLECT_UNUSED_S, COLLECT_BYTES_MAX and COLLECT_COUNT_MAX allow. For the end of a build or a
// removal: errors are ignored.
void collect_quietly(const char *home, bool is_full);

// Call `each` for each item that is removed, or would be. kept: gets the bytes that stay. An item
// in use is kept.
int collect_run(const struct collect_spec *spec,
                void (*each)(const struct collect_item *item, void *ctx), void *ctx, int64_t *kept,
                struct err *e);
