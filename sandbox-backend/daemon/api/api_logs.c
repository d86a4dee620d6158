// SPDX-License-Identifier: Apache-2.0
// GET /sandboxes/{id}/logs and /v2/sandboxes/{id}/logs: the sandbox's journal, and the last lines
// of its guest's console. Console lines have no times of their own: all get the time of the last
// write.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/fd.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api/api.h"
#include "sandbox-backend/daemon/http/reply.h"
#include "sandbox-backend/daemon/sandbox/admit.h"
#include "sandbox-backend/daemon/sandbox/sandbox.h"

#define CONSOLE_BYTES 65536 // the end of the console that is read
#define LIMIT_MAX     1000  // lines
#define NS_PER_MS     1000000LL
#define TIME_MAX      (INT64_MAX / NS_PER_MS - 1)

// ---- 1. the lines
struct log_line {
    int64_t at_ns; // wall clock
    enum journal_level level;
    const char *source; // "cubbyd" or "console"; static
    const char *text;   // borrowed; may not be UTF-8
};
struct logs {
    struct log_line *lines; // owned, the oldest first
    size_t count;
    char *console; // owned; lines borrow from it
};

static int by_time(const void *a, const void *b)
{
    const struct log_line *left = a;
    const struct log_line *right = b;
    if (left->at_ns != right->at_ns)
        return left->at_ns < right->at_ns ? -1 : 1;
    return left->text < right->text ? -1 : 1; // console lines keep their order
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

static void logs_read(struct logs *logs, struct sandbox *sb)
{
    usage_note_network(sb, USAGE_NOTE_LOOK);
    char *path auto_free = str_printf("%s/console.log", sb->dir);
    *logs = (struct logs){.console = xmalloc(CONSOLE_BYTES + 1)};
    file_read_tail(path, logs->console, CONSOLE_BYTES);
    logs->lines = xcalloc(sb->journal.count + count_lines(logs->console), sizeof *logs->lines);
    add_console(logs, path);
    for (size_t i = 0; i < sb->journal.count; i++) {
        const struct journal_entry *e = journal_at(&sb->journal, i);
        logs->lines[logs->count++] = (struct log_line){e->at_ns, e->level, "cubbyd", e->text};
    }
    qsort(logs->lines, logs->count, sizeof *logs->lines, by_time);
}

static void logs_fini(struct logs *logs)
{
    free(logs->lines);
    free(logs->console);
}

// ---- 2. the query

struct logs_query {
    int64_t from_ns, to_ns; // within
    int64_t limit;
    bool backward; // the newest first
    enum journal_level level;
    const char *search; // borrowed from the request; NULL: anything
};

static int read_number(struct http_request *req, const char *name, int64_t min, int64_t max,
                       int64_t *out, struct err *e)
{
    const char *text = http_request_query(req, name, NULL);
    if (!text || !*text || str_to_int(text, min, max, out))
        return 0;
    return err_set(e, ERR_INVALID, "%s must be a number from %lld to %lld", name, (long long)min,
                   (long long)max);
}

static int parse_v1(struct http_request *req, struct logs_query *q, struct err *e)
{
    int64_t start = 0;
    if (read_number(req, "start", 0, TIME_MAX, &start, e) < 0)
        return -1;
    q->from_ns = start * NS_PER_MS;
    return read_number(req, "limit", 0, LIMIT_MAX, &q->limit, e);
}

// The page begins at the cursor and goes to older lines, or to newer ones.
static int parse_v2(struct http_request *req, struct logs_query *q, struct err *e)
{
    int64_t cursor = -1;
    const char *direction = http_request_query(req, "direction", NULL);
    const char *level = http_request_query(req, "level", NULL);
    q->search = http_request_query(req, "search", NULL);
    q->backward = !str_eq(direction, "forward");
    if (direction && q->backward && !str_eq(direction, "backward"))
        return err_set(e, ERR_INVALID, "direction must be forward or backward");
    if (level && !journal_level_parse(level, &q->level))
        return err_set(e, ERR_INVALID, "level must be debug, info, warn or error");
    if (read_number(req, "cursor", 0, TIME_MAX, &cursor, e) < 0 ||
        read_number(req, "limit", 0, LIMIT_MAX, &q->limit, e) < 0)
        return -1;
    if (cursor >= 0 && q->backward)
        q->to_ns = cursor * NS_PER_MS + NS_PER_MS - 1;
    else if (cursor >= 0)
        q->from_ns = cursor * NS_PER_MS;
    return 0;
}

static bool matches(const struct logs_query *q, const struct log_line *line)
{
    return line->at_ns >= q->from_ns && line->at_ns <= q->to_ns && line->level >= q->level &&
           (!q->search || strstr(line->text, q->search));
}

// ---- 3. the answer
static json_t *entry_json(const struct log_line *line)
{
    char at[CLOCK_RFC3339_BYTES];
    clock_rfc3339(at, line->at_ns);
    json_t *entry = json_pack("{s:s, s:o, s:s, s:{s:s}}", "timestamp", at, "message",
                              json_lossy_string(line->text, strlen(line->text)), "level",
                              journal_level_name(line->level), "fields", "source", line->source);
    reply_hide(entry); // errors in the journal may name the home
    return entry;
}

static json_t *entries_of(const struct logs *logs, const struct logs_query *q)
{
    json_t *list = json_array();
    for (size_t i = 0; i < logs->count && (int64_t)json_array_size(list) < q->limit; i++) {
        const struct log_line *line = &logs->lines[q->backward ? logs->count - 1 - i : i];
        if (matches(q, line))
            json_array_append_new(list, entry_json(line));
    }
    return list;
}

// A line of v1 is a text of JSON, which E2B's command line parses.
static json_t *line_of(const json_t *entry)
{
    json_t *told = json_pack("{s:O, s:O, s:O, s:O}", "level", json_object_get(entry, "level"),
                             "logger", json_object_get(json_object_get(entry, "fields"), "source"),
                             "message", json_object_get(entry, "message"), "timestamp",
                             json_object_get(entry, "timestamp"));
    char *text auto_free = json_to_string(told);
    json_decref(told);
    return json_pack("{s:O, s:s}", "timestamp", json_object_get(entry, "timestamp"), "line", text);
}

// v1 shows each line twice: as a line and as an entry.
static json_t *lines_of(const json_t *entries)
{
    json_t *list = json_array();
    size_t i;
    const json_t *entry;
    json_array_foreach (entries, i, entry)
        json_array_append_new(list, line_of(entry));
    return list;
}

int api_logs(struct api_call *c, struct err *e)
{
    struct logs_query q = {.to_ns = INT64_MAX, .limit = LIMIT_MAX};
    struct logs logs;
    if ((c->v2 ? parse_v2(c->req, &q, e) : parse_v1(c->req, &q, e)) < 0)
        return -1;
    logs_read(&logs, c->sb);
    json_t *entries = entries_of(&logs, &q);
    logs_fini(&logs);
    reply_json(c->req, 200,
               c->v2 ? json_pack("{s:o}", "logs", entries)
                     : json_pack("{s:o, s:o}", "logs", lines_of(entries), "logEntries", entries));
    return 0;
}
