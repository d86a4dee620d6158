// SPDX-License-Identifier: Apache-2.0
// cubby template: what its verbs share.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "sandbox-backend/drivers/microvm/image/template.h"

// Return a template as `template ls --json` shows it. New reference.
json_t *template_to_json(const char *home, const struct template *t, const char *dir);

// Print a line in which a terminal obeys nothing: a template's files may hold any text.
void template_say(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Print a template that was made. templates: the directory of the system that got it, or NULL.
void template_print(const char *home, const char *templates, const struct template *t, bool json);

// Return the exit status of a build or an import that failed: 130 after a signal, else 1. Status 2
// is for command lines that are invalid, which is found out before.
int template_exit_status(const struct err *e);

// Check the name of a new template. Return 0, or print an error and return the exit status.
int template_check_name(const char *name);

int template_build_verb(int argc, char **argv); // template build
int template_export_verb(int argc, char **argv);
int template_import_verb(int argc, char **argv);
int template_finish_verb(int argc, char **argv);
int template_gc_verb(int argc, char **argv);
