// SPDX-License-Identifier: Apache-2.0
// The gvisor driver: each sandbox is a container of gVisor's runsc, restored from its template's
// checkpoint. It needs neither KVM nor root.
#pragma once
#include "sandbox-backend/drivers/driver.h"

extern const struct driver gvisor_driver;

// For a program that builds templates, once the driver is open: remove the containers'
// directories that killed builds left behind, and mark those of this process as a build's
// (container_dirs_for_build).
void gvisor_for_build(void);
