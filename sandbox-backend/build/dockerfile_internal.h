// SPDX-License-Identifier: Apache-2.0
// What the files of the Dockerfile parser share.
#pragma once
#include <jansson.h>
#include <stddef.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/build/lines.h"

#define INSTRUCTION_NAME_BYTES 48

struct parsing {
    struct lines lines;
    struct line *line;                 // borrowed; the line in hand
    char name[INSTRUCTION_NAME_BYTES]; // of its instruction
    const char *rest;                  // borrowed; the line after its name and its flags
    json_t *flags;                     // owned; [[name, value] ...] or NULL
    json_t *args, *stages;             // owned; the results
    int steps;
};

struct instruction {
    const char *name;
    int (*read)(struct parsing *p, json_t *step, struct err *e); // fill the step
};

// Set ERR_INVALID "line N: NAME: <what>". Return -1.
int dockerfile__refuse(const struct parsing *p, struct err *e, const char *what);
// Return the value of a flag, "" for one without a value, or NULL. The last one wins.
const char *dockerfile__flag(const struct parsing *p, const char *name);
// Refuse flags that are not in the list, which ends with NULL.
int dockerfile__only_flags(const struct parsing *p, const char *const *names, struct err *e);
// Return the strings of '["a", "b"]', or NULL if the text has another form. New reference.
json_t *dockerfile__json_form(const char *text);

int dockerfile__run(struct parsing *p, json_t *step, struct err *e);
int dockerfile__command(struct parsing *p, json_t *step, struct err *e);
int dockerfile__healthcheck(struct parsing *p, json_t *step, struct err *e);
int dockerfile__shell(struct parsing *p, json_t *step, struct err *e);
int dockerfile__copy(struct parsing *p, json_t *step, struct err *e);
int dockerfile__pairs(struct parsing *p, json_t *step, struct err *e);
int dockerfile__arg(struct parsing *p, json_t *step, struct err *e);
int dockerfile__one(struct parsing *p, json_t *step, struct err *e);
int dockerfile__expose(struct parsing *p, json_t *step, struct err *e);
int dockerfile__words(struct parsing *p, json_t *step, struct err *e);
int dockerfile__maintainer(struct parsing *p, json_t *step, struct err *e);
