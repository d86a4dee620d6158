// SPDX-License-Identifier: Apache-2.0
// cubby ps: list the sandboxes.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/connection.h"

static char *span_to(const json_t *sandbox, const char *key, int sign)
{
    int64_t at = 0;
    const char *text = json_string_value(json_object_get(sandbox, key));
    if (!text || !clock_parse_rfc3339(text, &at))
        return xstrdup("-");
    return cli_span(sign * (at - clock_wall_ns()) / 1000000000);
}

static char *metadata_of(const json_t *sandbox)
{
    struct buf text = BUF_INIT;
    const char *key = NULL;
    json_t *value = NULL;
    json_t *metadata = json_object_get(sandbox, "metadata");
    json_object_foreach (metadata, key, value) {
        buf_printf(&text, "%s%s=%s", text.len ? " " : "", key,
                   json_is_string(value) ? json_string_value(value) : "?");
    }
    return text.len ? buf_take(&text) : xstrdup("-");
}

static void add_row(struct table *t, const json_t *sandbox)
{
    char *age auto_free = span_to(sandbox, "startedAt", -1);
    // A paused sandbox has no end time.
    bool paused = str_eq(json_string_value(json_object_get(sandbox, "state")), "paused");
    char *left auto_free = paused ? xstrdup("-") : span_to(sandbox, "endAt", 1);
    char *metadata auto_free = metadata_of(sandbox);
    const char *template = cli_text(sandbox, "alias");
    table_cell(t, cli_text(sandbox, "sandboxID"));
    table_cell(t, *template == '-' ? cli_text(sandbox, "templateID") : template);
    table_cell(t, stats_view_state(sandbox));
    table_cell(t, cli_text(sandbox, "tier"));
    table_cell(t, cli_text(sandbox, "isolation"));
    table_cell(t, age);
    table_cell(t, left);
    table_cell(t, metadata);
}

static void print_table(const json_t *list)
{
    static const char *const HEADINGS[] = {"ID",        "TEMPLATE", "STATE",      "TIER",
                                           "ISOLATION", "AGE",      "EXPIRES IN", "METADATA"};
    struct table t;
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach (list, i, sandbox) {
        add_row(&t, sandbox);
    }
    table_print(&t, stdout);
    table_fini(&t);
}

int verb_ps(int argc, char **argv)
{
    bool as_json = false;
    struct backend_opts server = {0};
    const struct opt opts[] = {
        CLI_FLAG("json", &as_json, "print the API's JSON, an array"),
    };
    const struct cli_usage usage = {
        .synopsis = "ps [--json]",
        .text = "Lists the running and paused sandboxes.",
        .opts = opts,
        .opt_count = ARRAY_LEN(opts),
        .server = &server,
    };
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("ps takes no operand; see cubby ps --help");
    struct err e = ERR_INIT;
    struct connection c;
    if (connection_open(&c, &server, CONNECT_STARTS_IF_USED, &e) < 0)
        return cli_fail(&e);
    json_t *list = connection_is_idle(&c) ? json_array() : connection_list(&c, &e);
    if (list && as_json) {
        cli_print_json(list);
    } else if (list) {
        print_table(list);
    }
    json_decref(list);
    connection_close(&c);
    return list ? 0 : cli_fail(&e);
}
