// SPDX-License-Identifier: Apache-2.0
// The progress display of a long job: its stages and how long each took. On a terminal it is one
// line with a bar, which is redrawn. Otherwise it is a plain line at the start and the end of each
// stage.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/buf.h"

struct progress_stage {
    const char *name;
    int expected_ms; // on an ordinary machine; decides the stage's share of the bar
};

struct progress {
    FILE *out; // borrowed
    bool terminal;
    const struct progress_stage *stages; // borrowed
    int count;
    int at; // the stage in progress; -1 before the first
    int64_t started_ms;
    int64_t stage_started_ms;
};

void progress_init(struct progress *p, FILE *out, bool terminal,
                   const struct progress_stage *stages, int count);
void progress_next(struct progress *p); // ends the present stage, if any, and starts the next
void progress_tick(struct progress *p); // redraws; cheap, and does nothing unless on a terminal
// Print a permanent line ("accelerator: ...") above the bar.
void progress_say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_done(struct progress *p); // ends the last stage and the job
void progress_fail(struct progress *p); // marks the stage as failed; prints no reason

// Append the terminal line, without control codes, of at most `width` columns.
void progress_render(struct buf *out, const struct progress *p, int64_t now_ms, int width);
