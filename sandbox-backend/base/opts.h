// SPDX-License-Identifier: Apache-2.0
// Options as one table: flag, environment, file, default, help. A flag wins over the environment,
// that over the file, that over the default.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sandbox-backend/base/err.h"

enum opt_type {
    OPT_FLAG,   // bool; --name sets it
    OPT_STRING, // const char *; borrowed from argv or the environment
    OPT_INT,    // int64_t within [min, max]
    OPT_LIST,   // struct opt_list; the option may be given again
    OPT_SIZE,   // int64_t bytes: 512M, 4G, 1024 (no suffix is bytes)
};

enum opt_source { OPT_FROM_DEFAULT, OPT_FROM_FILE, OPT_FROM_ENV, OPT_FROM_FLAG };

#define OPT_LIST_MAX 32
struct opt_list {
    const char *items[OPT_LIST_MAX]; // borrowed
    int count;
    enum opt_source from; // one source's items replace those of another
};

struct opt {
    const char *name; // without "--"
    const char *env;  // environment variable read when the flag is absent; NULL for none
    enum opt_type type;
    void *value;         // where to put it; holds the default beforehand
    const char *arg;     // what the value is called in the help: "PATH", "SECONDS"
    const char *help;    // one line; says the default
    int64_t min, max;    // OPT_INT and OPT_SIZE; both 0 is no limit
    const char *choices; // OPT_STRING: "auto|kvm|tcg", or NULL
};

// Reads the environment, then argv[1..]. Options may stand anywhere before "--"; what is not an
// option is left, in order, in argv[1..*argc-1]. With stop_at_operand the first operand ends the
// options (for `cubby exec ID -- CMD`). ERR_INVALID names the option and what it takes.
int opts_parse(const struct opt *table, int count, int *argc, char **argv, bool stop_at_operand,
               struct err *e);
// The members of an object that was read from `file`: the options' names with _ for -; a flag is
// true or false, a list an array of strings, a size a number or a string such as "4G". "$schema"
// may be there too. To be called before opts_parse. Strings are borrowed from `values`. ERR_INVALID
// names the file, the key and what it takes.
int opts_load(const struct opt *table, int count, const json_t *values, const char *file,
              struct err *e);
void opts_help(FILE *to, const struct opt *table, int count);
