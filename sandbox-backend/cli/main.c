// SPDX-License-Identifier: Apache-2.0
// cubby: the command line of Cubby. Finds the verb and runs it.
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sandbox-backend/base/mem.h"
#include "sandbox-backend/base/str.h"
#include "sandbox-backend/base/version.h"
#include "sandbox-backend/cli/cli.h"
#include "sandbox-backend/cli/setup/setup.h"

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} VERBS[] = {
    {"setup", verb_setup, "make this host ready, and let MCP clients use Cubby"},
    {"create", verb_create, "create a sandbox and print its id"},
    {"exec", verb_exec, "run a command in a sandbox"},
    {"shell", verb_shell, "open a terminal in a sandbox"},
    {"run", verb_run, "create a sandbox, run a command in it, and end the sandbox"},
    {"cp", verb_cp, "copy files and directories into a sandbox, or out of it"},
    {"sync", verb_sync, "keep a directory here and one in a sandbox the same, both ways"},
    {"work", verb_work, "let a sandbox work on this git repository, and fetch its commits"},
    {"git-remote", verb_git_remote, "serve git, as its remote helper git-remote-cubby"},
    {"ssh-config", verb_ssh_config, "let ssh, scp, sftp, rsync and editors reach sandboxes"},
    {"ssh-proxy", verb_ssh_proxy, "serve ssh, as the ProxyCommand of cubby ssh-config"},
    {"mount", verb_mount, "show a directory of this host in a sandbox"},
    {"volume", verb_volume, "make, list and remove volumes, and copy files to and from them"},
    {"expose", verb_expose, "give a port of a sandbox a URL on this host"},
    {"web", verb_web, "serve a page to watch sandboxes and to work in them"},
    {"ps", verb_ps, "list the sandboxes"},
    {"top", verb_top, "show what the sandboxes use of this host, every two seconds"},
    {"stats", verb_stats, "show what the sandboxes use of this host, once"},
    {"logs", verb_logs, "show what happened to a sandbox, and follow it"},
    {"events", verb_events, "show what happened to all sandboxes, and follow it"},
    {"record", verb_record, "show what was done in a sandbox, and verify or export it"},
    {"pause", verb_pause, "stop sandboxes and keep their state"},
    {"resume", verb_resume, "let paused sandboxes run again"},
    {"snapshot", verb_snapshot, "save the state of a sandbox; list and remove snapshots"},
    {"rollback", verb_rollback, "return a sandbox to one of its snapshots"},
    {"fork", verb_fork, "create copies of a running sandbox"},
    {"network", verb_network, "show and set what a sandbox may connect to"},
    {"kill", verb_kill, "end sandboxes"},
    {"template", verb_template, "build, list and remove templates"},
    {"doctor", verb_doctor, "check this host, and say what to do about what is missing"},
    {"selftest", verb_selftest, "prove in a minute that sandboxes work on this host"},
    {"key", verb_key, "create, list and remove API keys for programs that use TCP"},
    {"fleet", verb_fleet,
     "configure the proxy of several daemons, and move sandboxes between them"},
    {"daemon", verb_daemon, "run the daemon in the foreground, show its state, stop it"},
};

static void help(FILE *to)
{
    fputs("Usage: cubby VERB [OPTIONS]\n\n"
          "Sandboxes for AI agents, which start from a saved state.\n\nVerbs:\n",
          to);
    for (size_t i = 0; i < ARRAY_LEN(VERBS); i++)
        fprintf(to, "  %-10s %s\n", VERBS[i].name, VERBS[i].help);
    fputs("\n\"cubby VERB --help\" explains a verb, \"cubby help backend\" how to use a remote "
          "server.\n"
          "Cubby keeps its state in $CUBBY_HOME (default: ~/.local/share/cubby, for root\n"
          "/var/lib/cubby).\n",
          to);
}

// Return the exit status when output may have been lost: a full disk is an error; a reader that
// left needs no message.
static int check_output(int status)
{
    bool flushed = fflush(stdout) == 0;
    const char *why = flushed ? "the output could not be written completely" : strerror(errno);
    if (flushed && !ferror(stdout))
        return status;
    if (!flushed && errno == EPIPE)
        return status ? status : 128 + SIGPIPE;
    fprintf(stderr, "cubby: standard output: %s\n", why);
    return status ? status : 1;
}

// Return the row of a verb; NULL: there is no such verb.
static const struct verb *find_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(VERBS); i++)
        if (strcmp(VERBS[i].name, name) == 0)
            return &VERBS[i];
    return NULL;
}

// Names of these verbs in other programs.
static const struct {
    const char *name, *verb;
} OTHER_NAMES[] = {
    {"unmount", "mount --remove"},
    {"umount", "mount --remove"},
    {"ls", "ps"},
    {"list", "ps"},
    {"rm", "kill"},
    {"delete", "kill"},
    {"stop", "kill"},
    {"start", "create"},
};

static int unknown_verb(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(OTHER_NAMES); i++)
        if (strcmp(name, OTHER_NAMES[i].name) == 0)
            return cli_usage_error("unknown verb \"%s\"; \"cubby %s\" does that", name,
                                   OTHER_NAMES[i].verb);
    for (size_t i = 0; i < ARRAY_LEN(VERBS); i++)
        if (str_is_near(name, VERBS[i].name))
            return cli_usage_error("unknown verb \"%s\"; did you mean \"cubby %s\"?", name,
                                   VERBS[i].name);
    return cli_usage_error("unknown verb \"%s\"; see cubby --help", name);
}

static int help_verb(char *name)
{
    static char option[] = "--help";
    char *words[] = {name, option, NULL};
    const struct verb *verb = find_verb(name);
    if (!verb)
        return unknown_verb(name);
    return verb->run(2, words);
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name)
        return first_contact();
    if (strcmp(name, "help") == 0 && argc > 2 && strcmp(argv[2], "backend") == 0)
        return cli_help_backend();
    if (strcmp(name, "help") == 0 && argc > 2)
        return help_verb(argv[2]);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        help(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        puts("cubby " CUBBY_VERSION);
        return 0;
    }
    const struct verb *verb = find_verb(name);
    if (verb)
        return verb->run(argc - 1, argv + 1);
    return unknown_verb(name);
}

int main(int argc, char **argv)
{
    // When the reader of our output leaves, the writer gets EPIPE instead of a signal.
    signal(SIGPIPE, SIG_IGN);
    return check_output(run(argc, argv));
}
