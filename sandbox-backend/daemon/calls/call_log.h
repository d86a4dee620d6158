// SPDX-License-Identifier: Apache-2.0
// The call log of a sandbox: what was done in it, by whom and when, as `cubby record` shows it.
//
//   <home>/calls/<id>.jsonl     the newest lines, one JSON object each, mode 0600
//   <home>/calls/<id>.1.jsonl   the lines before them
//   <home>/calls/ended/         the same two files of sandboxes that have ended
//   <home>/calls/key            the base of the masks (masks.h)
//
// Theory of operation. Every line is {"n": 1, "at": ..., "sandbox": ..., "kind": ..., ...,
// "prev": <SHA-256 of the bytes of the line before>}. The numbers go up by one, and the first line
// of each file has the kind "head". So a line that was changed, removed or put in later does not
// fit the next one. The hashes have no key. So a person who may write the files can replace all
// lines from one on. A hash that was kept in another place shows that.
//
//  - The newest file becomes the older one when it has half of the cap. Its successor's head names
//    the last line that was dropped with the file that was the older one before.
//  - A line is one write(2), without a sync. The file is opened for each line, so an idle sandbox
//    holds no descriptor. After a failed write (a full disk) the file is cut to its last whole
//    line. The next line that can be written is preceded by one of the kind "gap", which names the
//    lines that are missing. The sandbox never waits for its log.
//  - A daemon that was killed may leave half a line. The next daemon cuts it off, and says so in a
//    line of the kind "gap".
//  - The caller masks each free text (a command, a path, output, a name that the guest chose) once
//    (masks.h), and cuts it afterwards. Members that this program chose are not masked:
//    a tenant whose value is "kill", or the name of its key, must not change what a line says.
//
// calls/ knows no sandboxes; callers say where a line belongs by struct call_place.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/daemon/calls/masks.h"
#include "sandbox-backend/keys/sha256.h"

#define CALL_LOG_BYTES      (8LL << 20) // defaults of the daemon's options
#define CALL_LOG_OUTPUT     4096
#define CALL_LOG_KEEP_S     (7LL * 24 * 3600)
#define CALL_LOG_SPACE      (1LL << 30)
#define CALL_LOG_BYTES_MIN  (1LL << 16)
#define CALL_LOG_BYTES_MAX  (1LL << 30) // both files are read at once
#define CALL_LOG_OUTPUT_MAX 65536
#define CALL_LOG_LINE_MAX   (1LL << 20) // longer than the caps of all its texts allow

struct call_logs_opts {
    bool off;             // --no-record
    int64_t file_bytes;   // of both files of one sandbox
    int64_t output_bytes; // first part of each output that is kept
    int64_t keep_s;       // after the sandbox's end
    int64_t space_bytes;  // of all sandboxes that have ended
};

struct call_logs {
    uv_loop_t *loop;
    char *dir, *ended; // owned
    struct call_logs_opts opts;
    uint64_t base;     // of the masks
    int64_t collected; // the same of all sandboxes as in struct call_log
    uv_work_t work;
    int64_t swept_ms; // monotonic
    bool is_sweeping, is_failing;
};

// The log of one sandbox; a part of struct sandbox.
struct call_log {
    struct masks own;              // tokens, environment and secrets of the sandbox
    struct masks recent;           // values of its last requests
    struct sha256 last;            // of the last line
    int64_t n;                     // number of the last line
    int64_t first;                 // number of the newest file's first line; 0: there is no file
    int64_t dropped;               // number of the last line that was dropped with an older file
    int64_t bytes;                 // in the newest file
    int64_t figures;               // how many of them are figures (call_figure.h)
    int64_t lost_first, lost_last; // lines that could not be written; 0: none is missing
    int64_t lost_ns;               // wall clock of the first of them
    int64_t collected;             // bytes of requests that taps hold (call_tap.c)
    bool is_open;                  // the members above are those of the files
};

struct call_place {
    struct call_logs *logs;
    struct call_log *log;
    const char *id, *owner; // borrowed; owner NULL: the unix socket
    struct masks *request;  // borrowed; of one request, beside those of the log; NULL: none
};

// Open the directory and remove old logs. A failure is logged, and nothing is recorded then.
void call_logs_open(struct call_logs *logs, uv_loop_t *loop, const char *home,
                    const struct call_logs_opts *opts);
void call_logs_fini(struct call_logs *logs); // after the loop has ended
static inline bool call_logs_is_on(const struct call_logs *logs)
{
    return logs->dir && !logs->opts.off;
}

void call_log_fini(struct call_log *log);
// Mark a value that no line may hold (masks.h). NULL does nothing.
void call_log_hide(const struct call_place *p, const char *value);
void call_log_hide_values(const struct call_place *p, const json_t *object);
// Mask a text of this sandbox.
void call_log_mask(const struct call_place *p, char *text, size_t len);

// Write a line with the members of `line` (taken), as they are. Return its number; 0: nothing is
// recorded, or the log cannot be opened now.
int64_t call_log_add(const struct call_place *p, json_t *line);

// The sandbox has ended: move its files, and remove logs that are too old.
void call_log_end(const struct call_place *p);
// Do the same for each log whose sandbox does not exist: an earlier daemon was killed.
void call_logs_end_others(struct call_logs *logs, bool (*exists)(const char *id, void *ctx),
                          void *ctx);
