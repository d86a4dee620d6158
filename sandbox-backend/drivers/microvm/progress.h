// SPDX-License-Identifier: Apache-2.0
// What a person sees of a long job: its stages and how long each took. On a terminal one line with
// a bar that is drawn again; otherwise a plain line at the start and the end of each stage.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/buf.h"

struct progress_stage {
    const char *name;
    int expected_ms; // on an ordinary machine: how much of the bar it is
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
void progress_next(struct progress *p); // ends the stage in progress, if any, and starts the next
void progress_tick(struct progress *p); // draws again; cheap to call, does nothing off a terminal
// A line that stays ("accelerator: ..."), above the bar.
void progress_say(struct progress *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void progress_done(struct progress *p); // the last stage is over, and the whole
void progress_fail(struct progress *p); // the stage in progress failed; what failed is the caller's

// The line of a terminal, without its control codes: at most `width` columns.
void progress_render(struct buf *out, const struct progress *p, int64_t now_ms, int width);
