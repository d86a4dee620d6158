// SPDX-License-Identifier: Apache-2.0
// The saved machine from which gVisor's sandboxes of a template go on.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"

// Boot a sandbox of the template in `dir`, which has its template.json and GVISOR_DIR, run the
// warm-up in it, and save it into GVISOR_DIR. The gvisor driver is open. python, log: as for
// template_warm_up.
int gvisor_save(struct pump *p, const char *dir, bool python, int log, struct err *e);
