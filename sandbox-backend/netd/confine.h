// SPDX-License-Identifier: Apache-2.0
// What the process may use at most: the guest can only hurt its own network.
#pragma once
#include "sandbox-backend/base/err.h"

// Memory that libslirp may fill with what the guest sends and does not take, for example segments
// that wait for others before them. Past it the process aborts, and with it this sandbox's network.
#define CONFINE_DATA_BYTES (512L * 1024 * 1024)

// Sets the limits of descriptors and memory, and gives up gaining privileges. -1 when this host's
// hard limit of descriptors is lower than POLLSET_MAX.
int confine_self(struct err *e);
