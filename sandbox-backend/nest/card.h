// SPDX-License-Identifier: Apache-2.0
// The guest's network card: a TAP device in a network namespace of its own.
#pragma once
#include <stdbool.h>

#include "sandbox-backend/base/err.h"

// Enter a new network namespace with a TAP device, and bring it and the loopback up. Return the
// device's descriptor (non-blocking), whose reads and writes are frames; or -1. is_of_host: this
// process is in the host's user namespace.
int card_make(bool is_of_host, struct err *e);

// Enter a new network namespace that has only a loopback.
int card_make_none(bool is_of_host, struct err *e);
