// SPDX-License-Identifier: Apache-2.0
// The part for gVisor of a template that was made without it.
//
// The template can be used meanwhile, and stays the same build: its sandboxes and snapshots keep
// it. The part appears at once, when template.json names it, or never.
#pragma once
#include <stdbool.h>
#include <stdio.h>

#include "sandbox-backend/base/err.h"

struct template_finish {
    const char *home;
    const char *name;
    FILE *progress; // the stages are shown there
    bool terminal;  // `progress` is a terminal: show a bar
};

// Tell whether the template lacks the part, this host has what the part needs, and this user may
// write it. *failed: why the last attempt failed, if nothing has changed since that may change the
// result (drivers/gvisor/attempt.h); else NULL. New string.
bool template_finish_is_wanted(const char *home, const char *name, char **failed);

// Make the part from the template's disk, for the home's template or that of the system. Blocking,
// and takes up to a minute. *made: false if the template has the part already. Signals end it as
// they end a build. ERR_CONFLICT: another process builds or finishes the template.
int template_finish(const struct template_finish *spec, bool *made, struct err *e);
