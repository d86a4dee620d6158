// SPDX-License-Identifier: Apache-2.0
// cubby: what a person types. Finds the verb and runs it.
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/cli/cli.h"

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} VERBS[] = {
    {"create", verb_create, "make a sandbox and print its id"},
    {"exec", verb_exec, "run a command in a sandbox"},
    {"expose", verb_expose, "make a port of a sandbox a URL of this machine"},
    {"ps", verb_ps, "list the sandboxes"},
    {"top", verb_top, "show what the sandboxes use of this machine, again and again"},
    {"stats", verb_stats, "the same, once"},
    {"pause", verb_pause, "stop sandboxes, and keep them as they are"},
    {"resume", verb_resume, "let paused sandboxes go on"},
    {"snapshot", verb_snapshot, "keep what sandboxes are now; list and remove what was kept"},
    {"rollback", verb_rollback, "take a sandbox back to a snapshot of it"},
    {"fork", verb_fork, "make copies of a running sandbox"},
    {"network", verb_network, "show and set what a sandbox may open to the outside"},
    {"kill", verb_kill, "end sandboxes"},
    {"template", verb_template, "build, list and remove templates"},
    {"doctor", verb_doctor, "say what this machine lacks, and what to do about it"},
    {"key", verb_key, "make, list and remove API keys, for programs that come over TCP"},
    {"daemon", verb_daemon, "say whether the daemon runs, stop it, or run it in the foreground"},
};

static void help(FILE *to)
{
    fputs("Usage: cubby VERB [OPTIONS]\n\n"
          "Sandboxes for AI agents: microVMs restored from a snapshot.\n\nVerbs:\n",
          to);
    for (size_t i = 0; i < ARRAY_LEN(VERBS); i++)
        fprintf(to, "  %-10s %s\n", VERBS[i].name, VERBS[i].help);
    fputs("\n\"cubby VERB --help\" explains a verb. State is kept in $CUBBY_HOME (default\n"
          "~/.local/share/cubby, /var/lib/cubby for root).\n",
          to);
}

// Of a program whose output was lost: a full disk is an error, a reader that left is not worth a
// word.
static int check_output(int status)
{
    bool flushed = fflush(stdout) == 0;
    const char *why = flushed ? "not all of it could be written" : strerror(errno);
    if (flushed && !ferror(stdout))
        return status;
    if (!flushed && errno == EPIPE)
        return status ? status : 128 + SIGPIPE;
    fprintf(stderr, "cubby: standard output: %s\n", why);
    return status ? status : 1;
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        help(stderr);
        return CLI_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        puts("cubby " CUBBY_VERSION);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(VERBS); i++)
        if (strcmp(VERBS[i].name, name) == 0)
            return VERBS[i].run(argc - 1, argv + 1);
    return cli_usage_error("there is no verb \"%s\"; see cubby --help", name);
}

int main(int argc, char **argv)
{
    // A reader of our output that leaves is seen as EPIPE by whoever writes.
    signal(SIGPIPE, SIG_IGN);
    return check_output(run(argc, argv));
}
