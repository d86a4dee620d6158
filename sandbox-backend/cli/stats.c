// SPDX-License-Identifier: Apache-2.0
// cubby stats: what the sandboxes use of this machine, once.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sandbox-backend/base/json.h"
#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/session.h"
#include "sandbox-backend/cli/stats_view.h"

#define WINDOW_MS 1100 // the daemon looks again after a second; a load needs two looks

static json_t *ask(struct session *s, const char *id, struct err *e)
{
    const struct timespec window = {WINDOW_MS / 1000, WINDOW_MS % 1000 * 1000000L};
    json_t *first = session_stats(s, id, e);
    if (!first || stats_view_is_whole(first))
        return first;
    json_decref(first);
    nanosleep(&window, NULL);
    return session_stats(s, id, e);
}

static json_t *ask_about(struct session *s, const char *given, struct err *e)
{
    if (session_is_idle(s) && !given)
        return json_pack("{s:[]}", "sandboxes");
    char *id auto_free = given ? session_resolve(s, given, e) : NULL;
    return given && !id ? NULL : ask(s, id, e);
}

int verb_stats(int argc, char **argv)
{
    bool as_json = false;
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"json", NULL, OPT_FLAG, &as_json, NULL, "print JSON, as the API gives it", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "stats [--json] [ID]",
        "Says what sandboxes, or one, use of this machine: memory of their own, processor,\n"
        "disk and network; and what of the machine is left. It measures for a second.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    if (argc > 2)
        return cli_usage_error(
            "stats takes the id of one sandbox, or none; see cubby stats --help");
    struct err e = ERR_INIT;
    struct session s;
    if (session_open(&s, &server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    json_t *stats = ask_about(&s, argc > 1 ? argv[1] : NULL, &e);
    if (stats && as_json) {
        cli_print_json(stats);
    } else if (stats) {
        stats_view_print(stats, STATS_BY_CPU, stdout);
    }
    session_close(&s);
    json_decref(stats);
    return stats ? 0 : cli_fail(&e);
}
