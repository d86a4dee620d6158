// SPDX-License-Identifier: Apache-2.0
// The size of the guest's disk. Only for the guest's envd.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// The root file system fills a disk of `mb` from now on, which the host has made that large; one
// that is large enough stays as it is. Waits at most 2 s for the kernel to see the disk's new size,
// and grows the file system while it is used.
int disk_grow(int64_t mb, struct err *e);
