// SPDX-License-Identifier: Apache-2.0
// cubby events: what happened to the sandboxes in the last days. A follower asks for the newest
// events again and again, page by page until it finds one that it has printed.
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

#define EVERY_MS  500
#define PAGES_MAX 100 // of one look

struct events_opts {
    bool follows, as_json;
};

static void print_event(const json_t *event, bool as_json)
{
    if (as_json) {
        cli_print_json(event);
        return;
    }
    const char *type = cli_text(event, "type");
    const char *word = strrchr(type, '.');
    char *line auto_free =
        str_printf("%s %-12s %s %s", cli_text(event, "timestamp"), word ? word + 1 : type,
                   cli_text(event, "sandboxId"), cli_text(event, "sandboxTemplateId"));
    cli_print_line(line);
}

// Append the events after the one with the id `last` to `out`, the newest first. NULL: one page.
static int look(struct connection *c, const char *id, const char *last, json_t *out, struct err *e)
{
    for (int page = 0; page < PAGES_MAX; page++) {
        json_t *list = connection_events(c, id, (int64_t)page * CLIENT_EVENTS_MAX, e);
        bool found = !last;
        size_t i = 0;
        json_t *event = NULL;
        if (!list)
            return -1;
        json_array_foreach (list, i, event) {
            found = found || str_eq(json_string_value(json_object_get(event, "id")), last);
            if (found && last)
                break;
            json_array_append(out, event);
        }
        size_t count = json_array_size(list);
        json_decref(list);
        if (found || count < CLIENT_EVENTS_MAX)
            return 0;
    }
    return 0;
}

// Print what is new, the oldest first, and keep the id of the newest event in *last.
static int print_new(struct connection *c, const char *id, const struct events_opts *o, char **last,
                     struct err *e)
{
    json_t *events = json_array();
    int result = look(c, id, *last, events, e);
    for (size_t i = json_array_size(events); result == 0 && i > 0; i--)
        print_event(json_array_get(events, i - 1), o->as_json);
    const char *newest = json_string_value(json_object_get(json_array_get(events, 0), "id"));
    if (result == 0 && newest) {
        free(*last);
        *last = xstrdup(newest);
    }
    json_decref(events);
    return result;
}

static int show(struct connection *c, const char *id, const void *ctx)
{
    const struct events_opts *o = ctx;
    struct err e = ERR_INIT;
    char *last auto_free = NULL;
    int result = print_new(c, id, o, &last, &e);
    if (result == 0 && !last)
        last = xstrdup(""); // from now on
    while (result == 0 && o->follows && fflush(stdout) == 0) {
        poll(NULL, 0, EVERY_MS);
        result = client_is_there(c->client)
                     ? print_new(c, id, o, &last, &e)
                     : err_set(&e, ERR_UNAVAILABLE,
                               "cubbyd has stopped; start it, then run cubby "
                               "events --follow again");
    }
    return result < 0 ? cli_fail(&e) : 0;
}

static int show_all(const struct backend_opts *server, const struct events_opts *o)
{
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    int status = connection_is_idle(&c) ? 0 : show(&c, NULL, o);
    connection_close(&c);
    return status;
}

int verb_events(int argc, char **argv)
{
    static char follow_option[] = "--follow";
    struct backend_opts server = {0};
    struct events_opts o = {0};
    const struct opt opts[] = {
        CLI_FLAG("follow", &o.follows, "print new events until interrupted"),
        CLI_FLAG("json", &o.as_json, "print each event of the API as a line of JSON"),
    };
    const struct cli_usage usage = {
        .synopsis = "events [OPTIONS] [ID]",
        .text = "Shows what happened to the sandboxes in the last days, or to one of them: the "
                "newest\n100 events. Give the whole id of a sandbox that has ended.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    cli_spell_out(argc, argv, follow_option); // as for tail and docker logs
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 2)
        return cli_usage_error("events takes the id of at most one sandbox");
    return argc == 2 ? connection_on_one(&server, argv[1], show, &o) : show_all(&server, &o);
}
