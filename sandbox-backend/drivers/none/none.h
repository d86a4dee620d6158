// SPDX-License-Identifier: Apache-2.0
// The driver none: a sandbox is a directory of the host, and envd runs in it as the daemon's user.
// It isolates nothing.
#pragma once
#include "sandbox-backend/drivers/driver.h"

extern const struct driver none_driver;
