// SPDX-License-Identifier: Apache-2.0
// A machine that a driver makes of the new template, as cubbyd would, while the template is built.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/drivers/driver.h"
#include "sandbox-backend/template/pump.h"

struct trial; // a machine on a pump

// Make a machine of the template in `dir`, in a directory below it, and wait until envd answers.
// NULL on failure; nothing is left.
struct trial *trial_start(struct pump *p, const struct driver *driver, const char *dir,
                          struct err *e);
const char *trial_vmnet(const struct trial *t); // borrowed

// Save the running machine into the empty directory `into` (machine_save, SAVE_TO_KEEP).
int trial_save(struct trial *t, const char *into, struct err *e);

// End the machine, and remove its directory. Return -1 with `e` if the directory cannot be removed.
int trial_close(struct trial *t, struct err *e);
