// SPDX-License-Identifier: Apache-2.0
// The metrics of a team, as E2B's API has them, from the event log: how many sandboxes ran at the
// same time, and how many were started a second.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/daemon/events/events.h"

#define TEAM_METRICS_STEPS_MAX 100
#define TEAM_METRICS_STEP_S    15 // at least

enum team_metric { TEAM_CONCURRENT, TEAM_START_RATE };

struct team_query {
    const char *home;     // of struct events
    const char *owner;    // NULL: of all
    int64_t from_s, to_s; // seconds since 1970
    int64_t running;      // number of sandboxes that run now
    int64_t now_s;
};

// Return a list of E2B's TeamMetric, one for each step. New reference. Blocking: for a worker, as
// the next.
json_t *team_metrics_read(const struct team_query *q);
// Return E2B's MaxTeamMetric: the highest of these figures, and when it was.
json_t *team_metrics_max(const struct team_query *q, enum team_metric metric);
