// SPDX-License-Identifier: Apache-2.0
// The logical lines of a Dockerfile: continuation lines are joined, comments are dropped, and the
// here-documents of a line stand beside it.
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/err.h"

#define DOCKERFILE_BYTES_MAX (1 << 20)
#define HEREDOCS_MAX         16 // of one instruction

struct heredoc {
    char *name;   // owned
    char *text;   // owned; with "<<-" without the leading tabs
    bool literal; // the name was quoted: nothing in the text is expanded
    bool chomp;   // "<<-"
};

struct line {
    int number;      // of its first physical line, from 1
    struct buf text; // "RUN echo a", without white space at both ends
    struct heredoc heredocs[HEREDOCS_MAX];
    int heredoc_count;
};

struct lines {
    const char *at, *end; // what is not read yet; borrowed
    int number;           // of the line at `at`
    char escape;          // '\\', or '`' by the directive "# escape=`"
};

// Begin with a whole Dockerfile, and read its directives. ERR_INVALID: too large, a NUL, or a bad
// directive.
int lines_init(struct lines *l, const char *text, size_t len, struct err *e);
// Read the next line that is not empty. Return 1, 0 at the end, or -1 with ERR_INVALID, which has
// the number of the line. Free the line with line_fini, also after -1.
int lines_next(struct lines *l, struct line *out, struct err *e);
void line_fini(struct line *line);
