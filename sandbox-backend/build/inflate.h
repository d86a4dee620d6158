// SPDX-License-Identifier: Apache-2.0
// Archives of a plan, which E2B's SDKs compress. The tar of a small image, such as busybox's, may
// not see that, so the host decompresses them.
#pragma once
#include <stdint.h>

#include "sandbox-backend/base/err.h"

// Return a descriptor of the archive without gzip, at its beginning: `fd` itself if it has none, or
// a temporary file, and `fd` is then closed. -1 with `fd` closed: ERR_INVALID if the data is
// damaged, ERR_TOO_LARGE if more than `max` bytes come out.
int inflate_archive(int fd, int64_t max, struct err *e);
