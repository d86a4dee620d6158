// SPDX-License-Identifier: Apache-2.0
// The journal: the last JOURNAL_MAX events of one sandbox, as its logs show them. It is kept in
// memory and does not outlive the daemon.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_MAX        200
#define JOURNAL_TEXT_BYTES 200

enum journal_level { JOURNAL_DEBUG, JOURNAL_INFO, JOURNAL_WARN, JOURNAL_ERROR };
const char *journal_level_name(enum journal_level level);              // "debug", "info" ...
bool journal_level_parse(const char *name, enum journal_level *level); // false: unknown name

struct journal_entry {
    int64_t at_ns; // wall clock
    enum journal_level level;
    char text[JOURNAL_TEXT_BYTES];
};

struct journal {
    struct journal_entry *entries; // owned; grows to JOURNAL_MAX
    size_t room, count, next;      // allocated, used, and the index that is written next
};

void journal_fini(struct journal *j);
void journal_add(struct journal *j, enum journal_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Return entry `i` of journal.count, where 0 is the oldest. Borrowed until the next journal_add.
const struct journal_entry *journal_at(const struct journal *j, size_t i);
