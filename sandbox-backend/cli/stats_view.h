// SPDX-License-Identifier: Apache-2.0
// What sandboxes use, as people read it: for cubby stats and cubby top.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum stats_order { STATS_BY_CPU, STATS_BY_MEMORY, STATS_BY_AGE };

// Lines on the machine, then a table with the most of what it is ordered by first. `stats` is what
// the daemon answers (client_stats); without "host" only the table is printed.
void stats_view_print(const json_t *stats, enum stats_order order, FILE *to);
// Whether the load of each that runs is known; it is once it was looked at twice.
bool stats_view_is_whole(const json_t *stats);

// "running", "frozen", "hibernated", or "asleep (frozen)" of one that to its callers runs.
const char *stats_view_state(const json_t *sandbox);
