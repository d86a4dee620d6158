// SPDX-License-Identifier: Apache-2.0
// Where the other parts of this installation are, seen from the running program.
#pragma once
#include "sandbox-backend/base/err.h"

// Path of a program beside this one ("cubbyd", "cubby-netd"). New string, or NULL with a message
// that says how to build or install it.
char *self_program(const char *name, struct err *e);

// Path of a guest part ("envd", "init"): ../guest in a build tree, ../lib/cubby/guest installed.
char *self_guest(const char *name, struct err *e);
