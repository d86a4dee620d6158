// SPDX-License-Identifier: Apache-2.0
// What the process may use at most: the guest can only hurt its own network.
#pragma once
#include "sandbox-backend/base/err.h"

// Memory that libslirp may fill with what the guest sends and does not take: the buffers of its
// connections, and what waits for something before it (behind.h), which together are less. Past it
// the process aborts, and with it this sandbox's network.
#define CONFINE_DATA_BYTES (512L * 1024 * 1024)

// Memory of this size and above is mapped, not taken from the heap. libslirp has two buffers of
// 128 KiB for each connection, makes them larger at once, and mostly leaves them empty; moved about
// in the heap they would be written as a whole, and stay resident when they are freed. Its packets
// have 64 KiB as well: freed in the heap, they would become room for such buffers.
#define CONFINE_MAPPED_BYTES (64 * 1024)
#define CONFINE_HEAP_STEP    (16 * 1024) // by which the heap grows: no such room at its end either

// Sets the limits of descriptors and memory, keeps the heap small, and gives up gaining privileges.
// -1 when this host's hard limit of descriptors is lower than POLLSET_MAX.
int confine_self(struct err *e);
