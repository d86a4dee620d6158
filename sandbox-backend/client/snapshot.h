// SPDX-License-Identifier: Apache-2.0
// Where a snapshot is, for the control plane. For client/ only.
#pragma once
#include "sandbox-backend/base/err.h"

// The path of the control plane at which a snapshot ends: new string, "" with `e` when there cannot
// be such a snapshot. E2B's ids hold '/' and ':'.
char *snapshot_target(const char *snapshot, struct err *e);
