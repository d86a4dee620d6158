// SPDX-License-Identifier: Apache-2.0
// cubby pause and cubby resume: sandboxes that stand still.
#include <stdio.h>
#include <stdlib.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/session.h"

#define RESUME_S 1800 // as cubby-mcp gives one (--sandbox-timeout)

typedef int (*act_fn)(struct session *s, const char *id, int64_t how, struct err *e);

static int pause_one(struct session *s, const char *id, int64_t depth, struct err *e)
{
    return session_pause(s, id, (enum pause_depth)depth, e);
}

static int act_on(struct session *s, const char *given, act_fn act, int64_t how)
{
    struct err e = ERR_INIT;
    char *id auto_free = session_resolve(s, given, &e);
    if (!id || act(s, id, how, &e) < 0)
        return cli_fail(&e);
    cli_print_line(id);
    return 0;
}

static int act_on_all(const char *verb, const struct session_opts *server, char **ids, int count,
                      act_fn act, int64_t how)
{
    struct err e = ERR_INIT;
    struct session s;
    int status = 0;
    if (count == 0)
        return cli_usage_error("%s takes the ids of sandboxes; see cubby ps", verb);
    if (session_open(&s, server, SESSION_IF_USED, &e) < 0)
        return cli_fail(&e);
    for (int i = 0; i < count; i++)
        if (act_on(&s, ids[i], act, how) != 0)
            status = 1;
    session_close(&s);
    return status;
}

int verb_pause(int argc, char **argv)
{
    bool hibernate = false;
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"hibernate", NULL, OPT_FLAG, &hibernate, NULL,
         "keep the memory on the disk, and use none of the host's", 0, 0, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "pause [--hibernate] ID...",
        "Stops sandboxes where they are, and prints their ids. A paused one keeps its memory,\n"
        "its disk and its processes, uses no processor, and has no end; its open connections\n"
        "are cut. The beginning of an id will do when no other begins so.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    return act_on_all("pause", &server, argv + 1, argc - 1, pause_one,
                      hibernate ? PAUSE_HIBERNATE : PAUSE_FREEZE);
}

int verb_resume(int argc, char **argv)
{
    int64_t seconds = RESUME_S;
    struct session_opts server = {0};
    const struct opt opts[] = {
        {"timeout", NULL, OPT_INT, &seconds, "SECONDS",
         "how long they may live on (1800); " SESSION_TTL_LIMIT, 1, SESSION_TTL_MAX_S, NULL},
        SESSION_OPTS(&server),
    };
    const struct cli_usage usage = {
        "resume [--timeout SECONDS] ID...",
        "Lets paused sandboxes go on, and prints their ids. For one that runs it only sees to it\n"
        "that it lives for at least as long.",
        opts, ARRAY_LEN(opts), false};
    int done = cli_begin(&usage, &argc, argv);
    if (done >= 0)
        return done;
    return act_on_all("resume", &server, argv + 1, argc - 1, session_resume, seconds);
}
