// SPDX-License-Identifier: Apache-2.0
// A template as a machine of another size has it. The template's memory is a memory of its size,
// saved with a machine of so many processors: a machine with other ones has a memory of its own,
// which is zero at first.
#pragma once
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/drivers/microvm/template.h"

// The file that such a memory is a private mapping of: anonymous memory, found by name in
// /proc/PID/maps as a template's is.
#define SIZED_ZEROS "/dev/zero"

// Changes cpus, memory_mb and disk_mb. New string: the file that the memory is a private mapping
// of.
char *sized_apply(struct template *t, const char *template_dir, const struct machine_size *size);
// Whether it is not the template's.
bool sized_is_own(const char *memory);
// template_load and sized_apply. NULL on failure.
char *sized_load(struct template *t, const char *template_dir, const struct machine_size *size,
                 struct err *e);
