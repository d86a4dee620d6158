// SPDX-License-Identifier: Apache-2.0
// A template's root file system as a directory, for the tier bubblewrap, which can mount no image.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// Unpack the disk of a template into its directory, or that of one of the system into the home.
// Blocking; takes some seconds, and as much of the disk as the root file system has. *made: false
// if it was unpacked before. ERR_NOT_FOUND: there is no such template, or a program is missing; the
// message says which.
int template_unpack(const char *home, const char *name, bool *made, struct err *e);

// Tell whether the template was unpacked by this user.
bool template_is_unpacked(const char *home, const char *template_dir);

// Remove what template_unpack made: its files may belong to users that only cubby-nest can become.
// A template that is not unpacked is no error. ERR_CONFLICT, and nothing is removed, while it is
// being unpacked, or while a sandbox uses the files; force: also in the latter case.
int template_unpack_remove(const char *template_dir, bool force, struct err *e);
