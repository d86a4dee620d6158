// SPDX-License-Identifier: Apache-2.0
// The log of a build: <home>/builds/<id>/log.jsonl, one of E2B's BuildLogEntry a line. Clients read
// it by the number of an entry, while it grows and after the build has ended.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BUILD_LOG_ENTRIES  20000
#define BUILD_LOG_BYTES    (16 << 20)
#define BUILD_LOG_LINE     8192 // bytes of one message; a longer one is cut
#define BUILD_LOG_READ_MAX 100  // entries of one answer, as E2B's

enum build_level { BUILD_DEBUG, BUILD_INFO, BUILD_WARN, BUILD_ERROR };

struct build_log {
    char *path;      // owned
    int64_t *starts; // owned; the offset of each entry
    size_t count, room;
    int64_t bytes;
    int fd; // owned; -1: not opened yet
    bool full;
};

void build_log_init(struct build_log *log, const char *dir);
void build_log_fini(struct build_log *log);
void build_log_close(struct build_log *log); // until the next use

// Add an entry. `step` is E2B's name of the step; NULL: none. After the limits above, one entry
// says that further ones are dropped. A full disk loses entries.
void build_log_add(struct build_log *log, enum build_level level, const char *step,
                   const char *text, size_t len);
// Return at most `limit` entries from number `from` on; with `least`, only of that level and above.
// New reference.
json_t *build_log_read(struct build_log *log, size_t from, size_t limit, enum build_level least);
size_t build_log_count(struct build_log *log);
// Parse "debug", "info", "warn" or "error". False for another text.
bool build_level_parse(const char *text, enum build_level *out);
