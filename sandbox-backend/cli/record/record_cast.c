// SPDX-License-Identifier: Apache-2.0
// cubby record --cast: a terminal session as asciicast version 2, a line of JSON with the size of
// the terminal, then one for each event: [seconds, "o", output] or [seconds, "r", "80x24"].
#include <string.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/record/record_lines.h"

#define COLUMNS 80 // of a terminal whose size is not known
#define ROWS    24

struct session {
    int64_t call; // the number of its line
    int64_t pid;
    int64_t start_ns;
    json_t *line; // owned; its first line
    FILE *to;
};

typedef void (*line_cb)(struct session *s, json_t *line);

static void each_line(const struct buf *lines, line_cb cb, struct session *s)
{
    const char *at = buf_str(lines);
    for (const char *end; (end = strchr(at, '\n')); at = end + 1) {
        json_t *line = json_parse(at, (size_t)(end - at), NULL);
        if (line)
            cb(s, line);
        json_decref(line);
    }
}

static int64_t number(const json_t *line, const char *key)
{
    return json_integer_value(json_object_get(line, key));
}

static bool is(const json_t *line, const char *kind)
{
    return str_eq(json_string_value(json_object_get(line, "kind")), kind);
}

static int64_t time_of(const json_t *line)
{
    const char *at = json_string_value(json_object_get(line, "at"));
    int64_t ns = 0;
    return at && clock_parse_rfc3339(at, &ns) ? ns : 0;
}

// ---- 1. which session

static void find_last(struct session *s, json_t *line)
{
    if (is(line, "screen"))
        s->call = number(line, "of");
}

static void find_line(struct session *s, json_t *line)
{
    if (number(line, "n") == s->call) {
        json_decref(s->line);
        s->line = json_incref(line);
        s->start_ns = time_of(line);
    }
    if (is(line, "end") && number(line, "of") == s->call)
        s->pid = number(line, "pid");
}

// ---- 2. its events

static void write_event(const struct session *s, int64_t ms, const char *code, json_t *data)
{
    json_t *event = json_pack("[f, s, O]", (double)ms / 1000, code, data);
    char *text auto_free = json_to_string(event);
    fprintf(s->to, "%s\n", text);
    json_decref(event);
}

static void write_screen(const struct session *s, const json_t *line)
{
    size_t i;
    const json_t *event;
    json_array_foreach (json_object_get(line, "events"), i, event)
        write_event(s, json_integer_value(json_array_get(event, 0)), "o", json_array_get(event, 1));
}

static void write_size(const struct session *s, const json_t *line)
{
    char *size auto_free =
        str_printf("%lldx%lld", (long long)number(line, "cols"), (long long)number(line, "rows"));
    json_t *text = json_string(size);
    write_event(s, (time_of(line) - s->start_ns) / 1000000, "r", text);
    json_decref(text);
}

static void write_line(struct session *s, json_t *line)
{
    if (is(line, "screen") && number(line, "of") == s->call)
        write_screen(s, line);
    else if (is(line, "resize") && s->pid && number(line, "pid") == s->pid &&
             number(line, "n") > s->call)
        write_size(s, line);
}

static void write_head(const struct session *s)
{
    int64_t columns = number(s->line, "cols"), rows = number(s->line, "rows");
    json_t *head = json_pack(
        "{s:i, s:I, s:I, s:I, s:{s:s}}", "version", 2, "width",
        (json_int_t)(columns ? columns : COLUMNS), "height", (json_int_t)(rows ? rows : ROWS),
        "timestamp", (json_int_t)(s->start_ns / 1000000000), "env", "TERM", "xterm-256color");
    char *text auto_free = json_to_string(head);
    fprintf(s->to, "%s\n", text);
    json_decref(head);
}

int record_cast(const struct buf *lines, int64_t call, FILE *to, struct err *e)
{
    struct session s = {.call = call, .to = to};
    if (!call)
        each_line(lines, find_last, &s);
    each_line(lines, find_line, &s);
    bool is_terminal = s.line && (is(s.line, "terminal") || is(s.line, "join"));
    if (!is_terminal) {
        json_decref(s.line);
        return call ? err_set(e, ERR_NOT_FOUND, "line %lld is not a terminal", (long long)call)
                    : err_set(e, ERR_NOT_FOUND, "the record has no output of a terminal");
    }
    write_head(&s);
    each_line(lines, write_line, &s);
    json_decref(s.line);
    return 0;
}
