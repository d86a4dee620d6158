// SPDX-License-Identifier: Apache-2.0
// The files of a machine that is kept while another is tried in its place.
//
// They are moved from the sandbox's directory into one below it, all but its record and its image.
// The machine has them open and goes on with them, but nobody finds it by their names. Renames
// within one file system: quick, and either all of them are there (ASIDE_DIR) or some (ASIDE_PART).
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

#define ASIDE_DIR  "aside"     // in a sandbox's directory
#define ASIDE_PART "aside.tmp" // on the way there, or back

// What an earlier one may have left; before the record says that this one begins.
int aside_clear(const char *dir, struct err *e);
int aside_put(const char *dir, struct err *e);
// From wherever a daemon was killed. What another machine left in their place goes first.
int aside_take_back(const char *dir, struct err *e);
bool aside_is_there(const char *dir); // one of the two
