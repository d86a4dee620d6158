// SPDX-License-Identifier: Apache-2.0
// The command line of bwrap.
#pragma once

#define BWRAP_PROGRAM "bwrap"
#define BWRAP_PACKAGE "bubblewrap" // Debian's
#define BWRAP_TOOLS   "/usr/lib/cubby/bin"

#define BWRAP_ARGS_MAX 96

// Write the arguments that start a guest's init, with a NULL at the end. bwrap: its path. size:
// bytes of a tmpfs beside the layer, as text. All strings are borrowed or literals.
void bwrap_args(const char *args[BWRAP_ARGS_MAX], const char *bwrap, const char *size);
