// SPDX-License-Identifier: Apache-2.0
// Whether a template can be restored on this host: a memory snapshot fits one QEMU, one machine and
// one accelerator, and is rebuilt, not misused, when they differ.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/microvm/template.h"

// Loads the template and finds QEMU. Costs a few system calls (QEMU's version is asked once for
// each binary). ERR_NOT_FOUND, with what to do, when it is not there or does not fit.
// t: filled on success, to be ended by template_fini. binary: new string.
int fit_load(const char *template_dir, struct template *t, char **binary, struct err *e);
