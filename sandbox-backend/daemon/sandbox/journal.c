// SPDX-License-Identifier: Apache-2.0
// The journal of a sandbox.
#include "sandbox-backend/daemon/sandbox/journal.h"

#include <stdarg.h>
#include <stdio.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"

#define ROOM_AT_FIRST 8

static const char *const NAMES[] = {"debug", "info", "warn", "error"};

const char *journal_level_name(enum journal_level level)
{
    return NAMES[level];
}

bool journal_level_parse(const char *name, enum journal_level *level)
{
    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        *level = (enum journal_level)i;
        if (str_eq(name, NAMES[i]))
            return true;
    }
    return false;
}

void journal_fini(struct journal *j)
{
    free(j->entries);
    *j = (struct journal){0};
}

static void grow(struct journal *j)
{
    j->room = j->room ? j->room * 2 : ROOM_AT_FIRST;
    if (j->room > JOURNAL_MAX)
        j->room = JOURNAL_MAX;
    j->entries = xrealloc(j->entries, j->room * sizeof *j->entries);
}

void journal_add(struct journal *j, enum journal_level level, const char *fmt, ...)
{
    if (j->count == j->room && j->room < JOURNAL_MAX)
        grow(j);
    struct journal_entry *entry = &j->entries[j->next];
    va_list args;
    va_start(args, fmt);
    vsnprintf(entry->text, sizeof entry->text, fmt, args);
    va_end(args);
    entry->at_ns = clock_wall_ns();
    entry->level = level;
    j->next = (j->next + 1) % JOURNAL_MAX;
    if (j->count < JOURNAL_MAX)
        j->count++;
}

const struct journal_entry *journal_at(const struct journal *j, size_t i)
{
    size_t first = j->count < JOURNAL_MAX ? 0 : j->next;
    return &j->entries[(first + i) % JOURNAL_MAX];
}
