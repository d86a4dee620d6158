// SPDX-License-Identifier: Apache-2.0
// cubby ps: the sandboxes that there are.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/clock.h"
#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/session.h"
#include "sandbox-backend/cli/span.h"
#include "sandbox-backend/cli/stats_view.h"
#include "sandbox-backend/cli/table.h"

static char *span_to(const json_t *sandbox, const char *key, int sign)
{
    int64_t at = 0;
    const char *text = json_string_value(json_object_get(sandbox, key));
    if (!text || !clock_parse_rfc3339(text, &at))
        return xstrdup("-");
    return span_text(sign * (at - clock_wall_ns()) / 1000000000);
}

static char *metadata_of(const json_t *sandbox)
{
    struct buf text = BUF_INIT;
    const char *key = NULL;
    json_t *value = NULL;
    json_t *metadata = json_object_get(sandbox, "metadata");
    json_object_foreach(metadata, key, value)
    {
        buf_printf(&text, "%s%s=%s", text.len ? " " : "", key,
                   json_is_string(value) ? json_string_value(value) : "?");
    }
    return text.len ? buf_take(&text) : xstrdup("-");
}

static void add_row(struct table *t, const json_t *sandbox)
{
    char *age auto_free = span_to(sandbox, "startedAt", -1);
    // A paused one has no end.
    bool paused = str_eq(json_string_value(json_object_get(sandbox, "state")), "paused");
    char *left auto_free = paused ? xstrdup("-") : span_to(sandbox, "endAt", 1);
    char *metadata auto_free = metadata_of(sandbox);
    const char *template = cli_text(sandbox, "alias");
    table_cell(t, cli_text(sandbox, "sandboxID"));
    table_cell(t, *template == '-' ? cli_text(sandbox, "templateID") : template);
    table_cell(t, stats_view_state(sandbox));
    table_cell(t, cli_text(sandbox, "isolation"));
    table_cell(t, age);
    table_cell(t, left);
    table_cell(t, metadata);
}

static void print_table(const json_t *list)
{
    static const char *const HEADINGS[] = {"ID",  "TEMPLATE",   "STATE",   "ISOLATION",
                                           "AGE", "EXPIRES IN", "METADATA"};
    struct table t;
    table_init_headed(&t, HEADINGS, ARRAY_LEN(HEADINGS));
    size_t i = 0;
    const json_t *sandbox = NULL;
    json_array_foreach(list, i, sandbox)
    {
        add_row(&t, sandbox);
    }
    table_print(&t, stdout);
    table_fini(&t);
}

int verb_ps(int argc, char **argv)
{
    bool as_json = false;
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"json", NULL, OPT_FLAG, &as_json, NULL, "print JSON: an array, as the API gives it", 0, 0,
         NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {"ps [--json]", "Lists the sandboxes, running and paused.", opts,
                                    ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 1)
        return cli_usage_error("ps takes no operand; see cubby ps --help");
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    json_t *list = session_is_idle(&s) ? json_array() : session_list(&s, &e);
    if (list && as_json) {
        cli_print_json(list);
    } else if (list) {
        print_table(list);
    }
    json_decref(list);
    session_close(&s);
    return list ? 0 : cli_fail(&e);
}
