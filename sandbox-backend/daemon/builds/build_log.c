// SPDX-License-Identifier: Apache-2.0
// The log of a build.
#include "sandbox-backend/daemon/builds/build_log.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ENTRY_BYTES_MAX (BUILD_LOG_LINE * 6 + 1024) // as JSON

static const char *const LEVELS[] = {"debug", "info", "warn", "error"};

void build_log_init(struct build_log *log, const char *dir)
{
    *log = (struct build_log){.path = str_printf("%s/log.jsonl", dir), .fd = -1};
}

void build_log_close(struct build_log *log)
{
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
    free(steal(&log->starts));
    log->count = log->room = 0;
    log->bytes = 0;
}

void build_log_fini(struct build_log *log)
{
    build_log_close(log);
    free(log->path);
}

static void note_start(struct build_log *log, int64_t at)
{
    if (log->count == log->room) {
        log->room = log->room ? log->room * 2 : 64;
        log->starts = xrealloc(log->starts, log->room * sizeof *log->starts);
    }
    log->starts[log->count++] = at;
}

// Find the entries of a log that is there already.
static void scan(struct build_log *log)
{
    struct buf text auto_buf = BUF_INIT;
    if (file_read(log->path, BUILD_LOG_BYTES * 2, &text, NULL) < 0)
        return;
    for (size_t at = 0; at < text.len;) {
        const char *end = memchr(text.data + at, '\n', text.len - at);
        if (!end)
            break; // an entry that a killed daemon did not finish is overwritten
        note_start(log, (int64_t)at);
        at = (size_t)(end - text.data) + 1;
        log->bytes = (int64_t)at;
    }
}

static bool open_log(struct build_log *log)
{
    if (log->fd >= 0)
        return true;
    log->fd = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (log->fd >= 0)
        scan(log);
    return log->fd >= 0;
}

static void add(struct build_log *log, enum build_level level, const char *step, const char *text,
                size_t len)
{
    char now[CLOCK_RFC3339_BYTES];
    struct buf line auto_buf = BUF_INIT;
    clock_rfc3339(now, clock_wall_ns());
    json_t *entry = json_pack("{s:s, s:s, s:o, s:s*}", "timestamp", now, "level", LEVELS[level],
                              "message", json_lossy_string(text, len), "step", step);
    json_to_buf(&line, entry);
    json_decref(entry);
    buf_addc(&line, '\n');
    if (pwrite(log->fd, line.data, line.len, log->bytes) != (ssize_t)line.len)
        return; // the next entry overwrites the part
    note_start(log, log->bytes);
    log->bytes += (int64_t)line.len;
}

void build_log_add(struct build_log *log, enum build_level level, const char *step,
                   const char *text, size_t len)
{
    static const char FULL[] = "the log is full; further entries are dropped";
    if (!open_log(log))
        return;
    bool room = log->count < BUILD_LOG_ENTRIES && log->bytes < BUILD_LOG_BYTES;
    if (room || level == BUILD_ERROR)
        add(log, level, step, text, len < BUILD_LOG_LINE ? len : BUILD_LOG_LINE);
    else if (!log->full)
        add(log, BUILD_WARN, NULL, FULL, strlen(FULL));
    log->full = !room;
}

static json_t *read_entry(const struct build_log *log, size_t number)
{
    int64_t end = number + 1 < log->count ? log->starts[number + 1] : log->bytes;
    size_t len = (size_t)(end - log->starts[number]);
    if (len > ENTRY_BYTES_MAX)
        return NULL;
    char *text auto_free = xmalloc(len);
    if (pread(log->fd, text, len, log->starts[number]) != (ssize_t)len)
        return NULL;
    return json_parse(text, len, NULL);
}

json_t *build_log_read(struct build_log *log, size_t from, size_t limit, enum build_level least)
{
    json_t *entries = json_array();
    if (!open_log(log))
        return entries;
    for (size_t i = from; i < log->count && json_array_size(entries) < limit; i++) {
        enum build_level level = BUILD_INFO;
        json_t *entry = read_entry(log, i);
        const char *name = json_string_value(json_object_get(entry, "level"));
        if (entry && name && build_level_parse(name, &level) && level >= least)
            json_array_append(entries, entry);
        json_decref(entry);
    }
    return entries;
}

size_t build_log_count(struct build_log *log)
{
    return open_log(log) ? log->count : 0;
}

bool build_level_parse(const char *text, enum build_level *out)
{
    for (size_t i = 0; i < ARRAY_LEN(LEVELS); i++) {
        if (!str_eq(LEVELS[i], text))
            continue;
        *out = (enum build_level)i;
        return true;
    }
    return false;
}
