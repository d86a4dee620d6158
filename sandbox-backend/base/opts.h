// SPDX-License-Identifier: Apache-2.0
// A table of options: flag, environment, file, default, help. A flag wins over the environment, the
// environment over the file, and the file over the default.
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
    OPT_LIST,   // struct opt_list; the option may be repeated
    OPT_SIZE,   // int64_t bytes: 512M, 4G, 1024 (no suffix is bytes)
};

enum opt_source { OPT_FROM_DEFAULT, OPT_FROM_FILE, OPT_FROM_ENV, OPT_FROM_FLAG };

#define OPT_LIST_MAX 32
struct opt_list {
    const char *items[OPT_LIST_MAX]; // borrowed
    int count;
    enum opt_source from; // the items of one source replace those of another
};

struct opt {
    const char *name; // without "--"
    const char *env;  // environment variable that is read without the flag; NULL: none
    enum opt_type type;
    void *value;         // the variable; it holds the default at first
    const char *arg;     // the name of the value in the help: "PATH", "SECONDS"
    const char *help;    // one line, with the default
    int64_t min, max;    // OPT_INT and OPT_SIZE; both 0 is no limit; INT64_MAX is no maximum
    const char *choices; // OPT_STRING: "auto|kvm|tcg", or NULL
};

// Read the environment, then argv[1..]. Options may be anywhere before "--"; operands stay, in
// order, in argv[1..*argc-1]. With stop_at_operand the first operand ends the options (for `cubby
// exec ID -- CMD`). ERR_INVALID names the option and what it takes.
int opts_parse(const struct opt *table, int count, int *argc, char **argv, bool stop_at_operand,
               struct err *e);
// Take options from an object that was read from `file`. Keys are the options' names with _ for -;
// a flag is true or false, a list an array of strings, a size a number or a string such as "4G".
// "$schema" may be present. Call it before opts_parse. Strings are borrowed from `values`.
// ERR_INVALID names the file, the key and what it takes.
int opts_load(const struct opt *table, int count, const json_t *values, const char *file,
              struct err *e);
void opts_help(FILE *to, const struct opt *table, int count);
