// SPDX-License-Identifier: Apache-2.0
// A buffer that is used for one message after the other.
#pragma once
#include "sandbox-backend/base/buf.h"

#define WEB_SCRATCH_KEEP ((size_t)64 << 10)

// After use: what a large message needed is not kept for the small ones.
static inline void web_scratch_done(struct buf *scratch)
{
    if (scratch->cap > WEB_SCRATCH_KEEP)
        buf_fini(scratch);
}
