// SPDX-License-Identifier: Apache-2.0
// The microvm driver: each sandbox is a QEMU microVM, restored from its template's saved machine.
#pragma once
#include "sandbox-backend/drivers/driver.h"

extern const struct driver microvm_driver;
