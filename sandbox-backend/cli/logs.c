// SPDX-License-Identifier: Apache-2.0
// cubby logs: the log of a sandbox, and with --follow each new line until the sandbox ends. A
// follower asks for the lines from the newest known time on, and leaves out those that it has
// printed: several may have the same time. Lines of the guest's console, which all get the time of
// the last, are printed only once.
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

#define EVERY_MS 500

struct logs_opts {
    const char *level;
    bool follows, as_json;
};

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    return text ? text : "";
}

// "2026-11-24T03:00:01.123456Z" in milliseconds; 0 when it is not such a time.
static int64_t time_ms(const json_t *entry)
{
    struct tm tm = {0};
    const char *rest = strptime(text_of(entry, "timestamp"), "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t ms = 0;
    if (!rest)
        return 0;
    if (*rest == '.')
        for (int i = 1; i <= 3; i++)
            ms = ms * 10 + (rest[i] >= '0' && rest[i] <= '9' ? rest[i] - '0' : 0);
    return (int64_t)timegm(&tm) * 1000 + ms;
}

static void print_entry(const json_t *entry, const struct logs_opts *o)
{
    if (o->as_json) {
        cli_print_json(entry);
        return;
    }
    char *line auto_free = str_printf("%s %-5s %s", text_of(entry, "timestamp"),
                                      text_of(entry, "level"), text_of(entry, "message"));
    cli_print_line(line);
}

static bool is_of_console(const json_t *entry)
{
    return str_eq(text_of(json_object_get(entry, "fields"), "source"), "console");
}

// ---- what a follower has printed

struct seen {
    int64_t at_ms;   // the newest time
    json_t *entries; // owned; those of that time
};

static bool was_seen(const struct seen *seen, const json_t *entry)
{
    size_t i = 0;
    const json_t *old = NULL;
    json_array_foreach (seen->entries, i, old)
        if (json_equal(old, entry))
            return true;
    return false;
}

static void note(struct seen *seen, json_t *entry)
{
    int64_t at = time_ms(entry);
    if (at > seen->at_ms)
        json_array_clear(seen->entries);
    if (at >= seen->at_ms)
        json_array_append(seen->entries, entry);
    seen->at_ms = at > seen->at_ms ? at : seen->at_ms;
}

static void print_oldest_first(const json_t *list, const struct logs_opts *o, struct seen *seen)
{
    for (size_t i = json_array_size(list); i > 0; i--) {
        json_t *entry = json_array_get(list, i - 1);
        print_entry(entry, o);
        if (!is_of_console(entry))
            note(seen, entry);
    }
}

static void print_new(const json_t *list, const struct logs_opts *o, struct seen *seen)
{
    size_t i = 0;
    json_t *entry = NULL;
    json_array_foreach (list, i, entry) {
        if (is_of_console(entry) || was_seen(seen, entry))
            continue;
        print_entry(entry, o);
        note(seen, entry);
    }
}

// Follow until the sandbox ends, which is no failure, or our reader leaves. A local daemon that has
// stopped is not started again: whoever stopped it has ended the sandbox, or will start it.
static int follow(struct connection *c, const char *id, const struct logs_opts *o,
                  struct seen *seen)
{
    struct err e = ERR_INIT;
    while (fflush(stdout) == 0) {
        poll(NULL, 0, EVERY_MS);
        if (!client_is_there(c->client)) {
            err_set(&e, ERR_UNAVAILABLE, "cubbyd has stopped; the rest of the log is not known");
            break;
        }
        json_t *answer = connection_logs(c, id, seen->at_ms, o->level, &e);
        if (!answer)
            break;
        print_new(json_object_get(answer, "logs"), o, seen);
        json_decref(answer);
    }
    if (err_is(&e))
        cli_fail(&e);
    return err_is(&e) && e.code != ERR_GONE && e.code != ERR_NOT_FOUND;
}

static int show(struct connection *c, const char *id, const void *ctx)
{
    const struct logs_opts *o = ctx;
    struct err e = ERR_INIT;
    struct seen seen = {.entries = json_array()};
    json_t *answer = connection_logs(c, id, -1, o->level, &e);
    int status = 0;
    if (answer)
        print_oldest_first(json_object_get(answer, "logs"), o, &seen);
    else
        status = cli_fail(&e);
    if (answer && o->follows)
        status = follow(c, id, o, &seen);
    json_decref(answer);
    json_decref(seen.entries);
    return status;
}

static bool is_level(const char *word)
{
    static const char *const LEVELS[] = {"debug", "info", "warn", "error"};
    for (size_t i = 0; i < ARRAY_LEN(LEVELS); i++)
        if (str_eq(word, LEVELS[i]))
            return true;
    return false;
}

int verb_logs(int argc, char **argv)
{
    static char follow_option[] = "--follow";
    struct backend_opts server = {0};
    struct logs_opts o = {.level = "info"};
    const struct opt opts[] = {
        CLI_FLAG("follow", &o.follows, "print new lines until the sandbox ends"),
        CLI_STRING(
            "level", &o.level, "LEVEL",
            "the least level: debug (with the guest's console), info (default), warn, error"),
        CLI_FLAG("json", &o.as_json, "print each entry of the API as a line of JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "logs [OPTIONS] ID",
        .text = "Shows what happened to a sandbox: at most the last 1000 lines of its log.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    cli_spell_out(argc, argv, follow_option); // as for tail and docker logs
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc != 2)
        return cli_usage_error("logs takes the id of one sandbox; see cubby logs --help");
    if (!is_level(o.level))
        return cli_usage_error("--level must be debug, info, warn or error, not \"%s\"", o.level);
    return connection_on_one(&server, argv[1], show, &o);
}
