// SPDX-License-Identifier: Apache-2.0
// What the verbs of `cubby` share. A verb is one file with one function; main.c has the table.
#pragma once
#include <stdio.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/base/opts.h"

// A verb gets its own argv: argv[0] is its name, the rest what stood behind it. Returns the exit
// status of the program: 0, 1 for a failure, 2 for a command line that cannot be understood; that
// of exec is its command's, and has its own numbers for ours (exec.c).
int verb_create(int argc, char **argv);
int verb_daemon(int argc, char **argv);
int verb_doctor(int argc, char **argv);
int verb_exec(int argc, char **argv);
int verb_expose(int argc, char **argv);
int verb_fork(int argc, char **argv);
int verb_key(int argc, char **argv);
int verb_kill(int argc, char **argv);
int verb_network(int argc, char **argv);
int verb_pause(int argc, char **argv);
int verb_ps(int argc, char **argv);
int verb_resume(int argc, char **argv);   // pause.c
int verb_rollback(int argc, char **argv); // snapshot.c
int verb_snapshot(int argc, char **argv);
int verb_stats(int argc, char **argv);
int verb_template(int argc, char **argv); // template.c
int verb_top(int argc, char **argv);

#define CLI_USAGE 2

// The head of every verb: reads the options, and answers --help (which it adds) on stdout.
// Returns -1 to go on, else the exit status.
struct cli_usage {
    const char *synopsis; // "ps [--json]"
    const char *text;     // what it does, a few lines
    const struct opt *opts;
    int opt_count;
    bool stop_at_operand; // as for opts_parse
};
int cli_begin(const struct cli_usage *usage, int *argc, char **argv);

// "cubby: <message>" on stderr, with control characters escaped; returns 1.
int cli_fail(const struct err *e);
int cli_usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2))); // returns 2

// Writes text that others chose (a guest, metadata, an error of a server) so that a terminal shows
// it and never obeys it (base/visible.h).
void cli_safe(struct buf *out, const char *text);
void cli_print_safe(FILE *to, const char *text);
void cli_print_line(const char *text);    // on stdout
void cli_print_json(const json_t *value); // a line on stdout, as safe, and still that JSON

// A string member, as a table shows it: "-" when there is none or it is empty. Borrowed.
const char *cli_text(const json_t *object, const char *key);
