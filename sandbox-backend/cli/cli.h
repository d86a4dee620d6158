// SPDX-License-Identifier: Apache-2.0
// Functions that the verbs of `cubby` share. A verb is one function; main.c has the table.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

// A verb gets its own argv: argv[0] is its name. It returns the exit status of the program: 0; 1
// for a failure; 2 for an invalid command line. exec returns the status of its command, and has
// other numbers for cubby's own failures (exec.c).
int verb_cp(int argc, char **argv); // copy/cp.c
int verb_create(int argc, char **argv);
int verb_daemon(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_events(int argc, char **argv);
int verb_exec(int argc, char **argv);
int verb_expose(int argc, char **argv);
int verb_fleet(int argc, char **argv);
int verb_fork(int argc, char **argv);
int verb_git_remote(int argc, char **argv); // git/git_remote.c
int verb_key(int argc, char **argv);
int verb_kill(int argc, char **argv);
int verb_logs(int argc, char **argv);
int verb_mount(int argc, char **argv);
int verb_network(int argc, char **argv);
int verb_pause(int argc, char **argv);
int verb_ps(int argc, char **argv);
int verb_record(int argc, char **argv); // record/record.c
int verb_resume(int argc, char **argv);
int verb_rollback(int argc, char **argv);
int verb_run(int argc, char **argv);
int verb_selftest(int argc, char **argv);
int verb_setup(int argc, char **argv);
int verb_shell(int argc, char **argv);
int verb_snapshot(int argc, char **argv);
int verb_ssh_config(int argc, char **argv); // ssh/ssh_config.c
int verb_ssh_proxy(int argc, char **argv);  // ssh/ssh_proxy.c
int verb_stats(int argc, char **argv);
int verb_sync(int argc, char **argv); // copy/sync.c
int verb_template(int argc, char **argv);
int verb_top(int argc, char **argv);
int verb_volume(int argc, char **argv);
int verb_work(int argc, char **argv); // git/work.c
int verb_web(int argc, char **argv);

int snapshot_export_verb(int argc, char **argv); // snapshot_move.c
int snapshot_import_verb(int argc, char **argv);

#define CLI_USAGE 2

int cli_help_backend(void); // cubby help backend: the options of a backend; returns 0

// Rows of a verb's table of options.
#define CLI_OPT(n, t, v, a, h)                                          \
    {                                                                   \
        .name = (n), .type = (t), .value = (v), .arg = (a), .help = (h) \
    }
#define CLI_FLAG(n, v, h)      CLI_OPT(n, OPT_FLAG, v, NULL, h)
#define CLI_STRING(n, v, a, h) CLI_OPT(n, OPT_STRING, v, a, h)
#define CLI_LIST(n, v, a, h)   CLI_OPT(n, OPT_LIST, v, a, h)
#define CLI_INT(n, v, a, lo, hi, h)                                                       \
    {                                                                                     \
        .name = (n), .type = OPT_INT, .value = (v), .arg = (a), .min = (lo), .max = (hi), \
        .help = (h)                                                                       \
    }

// The head of every verb: read the options and answer --help on stdout. Return -1 to go on, else
// the exit status.
struct backend_opts;
struct cli_usage {
    const char *synopsis;   // "ps [--json]"
    const char *text;       // what the verb does, a few lines
    const struct opt *opts; // the verb's own
    int opt_count;
    struct backend_opts *server; // gets the options of a backend; NULL: the verb takes none
    bool stop_at_operand;        // as for opts_parse
};
int cli_begin(const struct cli_usage *usage, int *argc, char **argv);
// Call this before cli_begin: replace the words "-f" before "--" by `option`, the long form.
void cli_spell_out(int argc, char **argv, char *option);

// "cubby: <message>" on stderr, with control characters escaped; returns 1.
int cli_fail(const struct err *e);
int cli_usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // returns 2

// Write text that others chose (a guest, metadata, an error of a server) so that a terminal shows
// it and never obeys it (base/visible.h).
void cli_print_safe(FILE *to, const char *text);
void cli_print_line(const char *text);    // on stdout
void cli_print_json(const json_t *value); // a line on stdout, as safe, and still that JSON
// Print a line with a text, or with {NAME: TEXT}.
void cli_print_word(const char *name, const char *text, bool as_json);

// Return a string member as a table shows it: "-" when it is absent or empty. Borrowed.
const char *cli_text(const json_t *object, const char *key);
// Return a length of time for people, new string: "45s", "3m12s", "2h05m", "4d3h"; the two units
// that matter.
char *cli_span(int64_t seconds);

// ---- the usage of sandboxes as a table for people, for cubby stats and cubby top (stats.c)

enum stats_order { STATS_BY_CPU, STATS_BY_MEMORY, STATS_BY_AGE };

// Print lines about the host, then a table of the sandboxes in descending order. `stats` is the
// daemon's answer (client_stats); without its member "host" only the table is printed.
void stats_view_print(const json_t *stats, enum stats_order order, FILE *to);

// Return the state's word: "running", "frozen" or "hibernated"; "asleep (frozen)" for an asleep
// sandbox, which callers see as running.
const char *stats_view_state(const json_t *sandbox);

// ---- the phase of a home's daemon, found by its lock (daemon/daemon.c; cli/daemon.c)
//
// A daemon that does not listen may not exist, or may be starting or stopping.

enum daemon_phase {
    DAEMON_NONE, // no daemon; a killed one may have left its files
    DAEMON_RUNS, // it listens, or is about to
    DAEMON_STOPS,
};

// Return -1 with `e` when it cannot be known, because the home is another user's.
int daemon_phase(const char *home, enum daemon_phase *out, struct err *e);
// Return whether the phase explains that a request failed with `why`.
bool daemon_phase_explains(const char *home, const struct err *why, enum daemon_phase *out);

// Send a signal to the home's daemon (SIGTERM: with its sandboxes, SIGUSR1: without) and wait until
// it has ended. *was_there: there was one.
int daemon_end(const char *home, int number, bool *was_there, struct err *e);

// Return the URL of the daemon's TCP address, from <home>/cubbyd.url. New string; NULL when the
// daemon does not listen on TCP, or does not run.
char *daemon_url(const char *home);

// ---- options that several verbs share, as JSON: NAME=VALUE pairs, names, and a network policy

// NAME=VALUE pairs as an object. New reference; NULL in *out when there are none. The error names
// `option`.
int pairs_parse(const struct opt_list *list, const char *option, json_t **out, struct err *e);
// Names as an array. New reference, also when there are none; NULL with `e`.
json_t *names_parse(const struct opt_list *list, const char *option, struct err *e);

// --network, --allow and --deny.
struct network_opts {
    const char *what; // a mode or a file; borrowed
    struct opt_list allow, deny;
};
#define NETWORK_OPT(type, value, name, arg, help)      \
    {                                                  \
        name, NULL, type, value, arg, help, 0, 0, NULL \
    }
#define NETWORK_OPTS(o)                                                                  \
    NETWORK_OPT(OPT_STRING, &(o)->what, "network", "POLICY",                             \
                "none, public, allow, or a file with a policy in JSON"),                 \
        NETWORK_OPT(OPT_LIST, &(o)->allow, "allow", "ENTRY",                             \
                    "allow connections to ENTRY, and to nothing else; may be repeated"), \
        NETWORK_OPT(OPT_LIST, &(o)->deny, "deny", "ENTRY",                               \
                    "deny connections to ENTRY, even if allowed; may be repeated")

// New reference; NULL in *out when none of the three was given.
int network_opts_policy(const struct network_opts *o, json_t **out, struct err *e);

// ---- a table for people. A column is as wide as its widest cell; cells hold nothing that a
// terminal would obey

#define TABLE_COLUMNS_MAX 11

struct table {
    int columns;
    int count;    // of cells
    char **cells; // owned, row by row
};

void table_init(struct table *t, int columns);
void table_init_headed(struct table *t, const char *const *headings, int columns);
void table_cell(struct table *t, const char *text); // the next one, left to right; copied
void table_print(const struct table *t, FILE *to);
void table_fini(struct table *t);
