// SPDX-License-Identifier: Apache-2.0
// The directories of templates: those of the home, then those of the system, which serve all users
// of the host.
//
//   <home>/templates/NAME/               goes before one of the system
//   /var/lib/cubby-templates/NAME/       $CUBBY_SYSTEM_TEMPLATES in its place; empty: none
//
// Only `cubby template build --system` writes into the directory of the system. What a home keeps
// about a template of the system lies in
//   <home>/system/NAME@BUILD/            used: its time stamp is that of the last use;
//                                        bubblewrap/: the template's files, unpacked
//
// A template runs programs, so a template of the system is used only if it belongs to root or to
// this user, and if nobody else can replace it or write into it.
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "sandbox-backend/base/err.h"

#define TEMPLATE_DIRS_ENV    "CUBBY_SYSTEM_TEMPLATES"
#define TEMPLATE_DIRS_SYSTEM "/var/lib/cubby-templates"
#define TEMPLATE_DIRS_OWN    "system" // in the home

// Return the directory of the system's templates, or NULL: there is none, or it is the home's. New
// string, without symbolic links.
char *template_dirs_system(const char *home);
// Return the same as a directory that may be missing. NULL with `e`: it is not an absolute path, or
// is switched off.
char *template_dirs_system_path(struct err *e);

// Make the directory of the system's templates if it is missing, and check that this user may build
// there and that nobody else may. New string, its path; or NULL.
char *template_dirs_system_make(struct err *e);

// Return the directory of the template that this name means: the home's, else that of the system if
// it may be used. Without either it is the path of the home's. New string.
char *template_dirs_find(const char *home, const char *name);
// Return the directory of the template with this build, its "created_at", which need not be the one
// that the name means. build: NULL or "": any. New string.
char *template_dirs_find_build(const char *home, const char *name, const char *build);
// Set why a template of the system is not used. Return 0 if there is none of this name, or if the
// reason is only that the home has one.
int template_dirs_check(const char *home, const char *name, struct err *e);
// Tell whether a directory, as the functions above return it, is one of the system.
bool template_dirs_is_system(const char *home, const char *dir);

// A build of NAME works in the directory ".build-NAME-<unique>" beside the template, and locks it.
#define TEMPLATE_BUILD_PREFIX ".build-"
#define TEMPLATE_BUILD_UNIQUE 8 // characters
// Tell whether a name in a directory of templates is that of a build of the template `name`.
bool template_dirs_is_build(const char *entry, const char *name);
// Tell whether a process builds the template of this directory now, or finishes it.
bool template_dirs_is_in_work(const char *dir);

// Return <home>/system/NAME@BUILD for a template of the system, and `dir` itself for one of the
// home: the directory for what this home keeps about the template. New string.
char *template_dirs_own(const char *home, const char *dir);
// Note that a template is used now. Errors are ignored.
void template_dirs_touch(const char *home, const char *dir);
// Return when this home last used the template, in seconds since 1970; without a use, when it was
// made.
int64_t template_dirs_used_s(const char *home, const char *dir);
