// SPDX-License-Identifier: Apache-2.0
// Parts that the verbs cp and sync share.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

struct listing;
struct remote;
struct moving_count;

// Return whether `text` is ID:PATH. Then *id is a new string, and *path is borrowed from `text`;
// without a path it is ".", the user's home.
bool copy_operand(const char *text, char **id, const char **path);
// Return a path of the sandbox as an absolute one: others begin at the user's home. New string.
char *copy_absolute(struct remote *r, const char *path, struct err *e);
int64_t copy_total(const struct listing *l); // the bytes of all files
// Print the result as JSON on stdout, or what was left out on stderr.
void copy_report(const struct moving_count *n, bool as_json);
