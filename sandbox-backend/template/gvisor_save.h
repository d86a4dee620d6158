// SPDX-License-Identifier: Apache-2.0
// The saved machine from which gVisor's sandboxes of a template go on.
#pragma once
#include "sandbox-backend/base/err.h"
#include "sandbox-backend/template/pump.h"
#include "sandbox-backend/template/setup.h"

// Boot a sandbox of the template in `dir`, which has its template.json and GVISOR_DIR, run the
// warm-up and the start command in it, and save it into GVISOR_DIR. The gvisor driver is open.
int gvisor_save(struct pump *p, const char *dir, const struct template_setup *setup, struct err *e);
