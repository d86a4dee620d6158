// SPDX-License-Identifier: Apache-2.0
// GET /sandboxes/{id}/logs and /v2/sandboxes/{id}/logs.
#include <jansson.h>
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/daemon/api.h"
#include "sandbox-backend/daemon/api_change.h"
#include "sandbox-backend/daemon/logs.h"
#include "sandbox-backend/daemon/reply.h"
#include "sandbox-backend/daemon/sandbox.h"

#define NS_PER_MS 1000000LL
#define TIME_MAX  (INT64_MAX / NS_PER_MS - 1)

// What of the logs is wanted.
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
    return read_number(req, "limit", 0, LOGS_LIMIT_MAX, &q->limit, e);
}

// The cursor is where the page begins: what is older than it, or newer.
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
        read_number(req, "limit", 0, LOGS_LIMIT_MAX, &q->limit, e) < 0)
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

static json_t *entry_json(const struct log_line *line)
{
    char at[CLOCK_RFC3339_BYTES];
    clock_rfc3339(at, line->at_ns);
    json_t *entry = json_pack("{s:s, s:o, s:s, s:{s:s}}", "timestamp", at, "message",
                              json_lossy_string(line->text, strlen(line->text)), "level",
                              journal_level_name(line->level), "fields", "source", line->source);
    reply_hide(entry); // the journal tells of errors
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

// v1 has each twice: as a line, and as an entry.
static json_t *lines_of(const json_t *entries)
{
    json_t *list = json_array();
    size_t i;
    const json_t *entry;
    json_array_foreach((json_t *)(uintptr_t)entries, i, entry)
    {
        json_array_append_new(list, json_pack("{s:O, s:O}", "timestamp",
                                              json_object_get(entry, "timestamp"), "line",
                                              json_object_get(entry, "message")));
    }
    return list;
}

static void answer(struct store *store, struct http_request *req, const char *id, bool v2)
{
    struct logs_query q = {.to_ns = INT64_MAX, .limit = LOGS_LIMIT_MAX};
    struct err e = ERR_INIT;
    struct sandbox *sb = api_find(store, req, id);
    if (!sb)
        return;
    if ((v2 ? parse_v2(req, &q, &e) : parse_v1(req, &q, &e)) < 0) {
        reply_err(req, NULL, &e);
        return;
    }
    struct logs logs;
    logs_read(&logs, sb);
    json_t *entries = entries_of(&logs, &q);
    logs_fini(&logs);
    reply_json(req, 200,
               v2 ? json_pack("{s:o}", "logs", entries)
                  : json_pack("{s:o, s:o}", "logs", lines_of(entries), "logEntries", entries));
}

void api_logs_v1(struct store *store, struct http_request *req, const char *id)
{
    answer(store, req, id, false);
}

void api_logs_v2(struct store *store, struct http_request *req, const char *id)
{
    answer(store, req, id, true);
}
