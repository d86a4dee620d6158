// SPDX-License-Identifier: Apache-2.0
// What can be told of a sandbox as log entries.
#include "sandbox-backend/daemon/logs.h"

#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/network_view.h"
#include "sandbox-backend/daemon/sandbox.h"
#include "sandbox-backend/daemon/tail.h"

static int by_time(const void *a, const void *b)
{
    const struct log_line *left = a;
    const struct log_line *right = b;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return left->text < right->text ? -1 : 1; // lines of the console stay in their order
}

static void add_console(struct logs *logs, const char *path)
{
    struct stat st = {0};
    stat(path, &st);
    int64_t at = st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec;
    char *rest = logs->console;
    for (char *line; (line = strsep(&rest, "\n"));) {
        line[strcspn(line, "\r")] = '\0';
        if (*line)
            logs->lines[logs->count++] = (struct log_line){at, JOURNAL_DEBUG, "console", line};
    }
}

static size_t count_lines(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

void logs_read(struct logs *logs, struct sandbox *sb)
{
    network_view_note(sb);
    char *path auto_free = str_printf("%s/console.log", sb->dir);
    *logs = (struct logs){.console = xmalloc(LOGS_CONSOLE_BYTES + 1)};
    tail_read(path, logs->console, LOGS_CONSOLE_BYTES);
    logs->lines = xcalloc(sb->journal.count + count_lines(logs->console), sizeof *logs->lines);
    add_console(logs, path);
    for (size_t i = 0; i < sb->journal.count; i++) {
        const struct journal_entry *e = journal_at(&sb->journal, i);
        logs->lines[logs->count++] = (struct log_line){e->at_ns, e->level, "cubbyd", e->text};
    }
    qsort(logs->lines, logs->count, sizeof *logs->lines, by_time);
}

void logs_fini(struct logs *logs)
{
    free(logs->lines);
    free(logs->console);
    *logs = (struct logs){0};
}
