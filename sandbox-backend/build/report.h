// SPDX-License-Identifier: Apache-2.0
// The progress of a build, step by step: a bar and the last lines of the output on a terminal,
// plain lines elsewhere, or one JSON object a line for programs:
//
//   {"event": "start", "steps": 7}
//   {"event": "step", "index": 1, "count": 7, "name": "FROM default", "cached": false, "line": 1}
//   {"event": "log", "index": 3, "stream": "stdout" or "stderr", "text": "..."}
//   {"event": "warning", "message": "..."}
//   {"event": "done", "template": {...}}
//   {"event": "error", "message": "...", "step": "RUN ...", "index": 3, "line": 5}
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define REPORT_TAIL_LINES 5

struct report {
    FILE *out; // borrowed
    bool json, terminal;
    int count, index, line;        // of the step in progress
    char *name;                    // owned; of the step in progress, or NULL
    int64_t started_ms;            // of the step
    struct buf partial[2];         // stdout and stderr: the line that has no end yet
    char *tail[REPORT_TAIL_LINES]; // owned; the last lines of the step
    int shown;                     // lines that are on the terminal now, to be drawn again
};

void report_init(struct report *r, FILE *out, bool json, bool terminal);
void report_fini(struct report *r);
void report_start(struct report *r, int steps);
void report_step(struct report *r, int index, const char *name, int line, bool cached);
void report_output(struct report *r, bool is_stderr, const char *data, size_t len);
void report_warning(struct report *r, const char *text); // before the first step
void report_tick(struct report *r);                      // draw the terminal's lines again
// End the step in progress.
void report_step_done(struct report *r);
// End the build: with the template as JSON (borrowed), or with an error.
void report_done(struct report *r, const json_t *template);
void report_error(struct report *r, const struct err *e);
