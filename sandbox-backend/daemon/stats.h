// SPDX-License-Identifier: Apache-2.0
// What the sandboxes use of this machine, and what is left of it: as JSON, and as text for
// Prometheus. Of the figures that usage.h has; looks at nothing itself.
#pragma once
#include <jansson.h>

#include "sandbox-backend/base/buf.h"

struct sandbox;
struct store;

// Whether it is shown to who asks.
typedef bool (*stats_shows)(const struct sandbox *sb, const void *ctx);

// {"host": {...}, "sandboxes": [...]}, a new reference. What its members are, HOST in stats.c says.
// "host" is empty unless `of_host`, for its sums are of all owners.
json_t *stats_json(struct store *store, bool of_host, stats_shows shows, const void *ctx);
// https://prometheus.io/docs/instrumenting/exposition_formats, text format 0.0.4.
void stats_text(struct store *store, bool of_host, stats_shows shows, const void *ctx,
                struct buf *out);
