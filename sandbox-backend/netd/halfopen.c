// SPDX-License-Identifier: Apache-2.0
// Outward connections of which the guest has not ended the handshake.
#include "sandbox-backend/netd/halfopen.h"

void halfopen_begin(struct halfopen *h, int fd, int64_t now_ms)
{
    halfopen_end(h, fd);
    h->until[fd] = now_ms + HALFOPEN_MS;
    if (h->count++ == 0)
        h->first_until = h->until[fd];
}

void halfopen_end(struct halfopen *h, int fd)
{
    h->count -= h->until[fd] != 0;
    h->until[fd] = 0;
}

// All of them are looked at only when one that there was may be late.
int halfopen_late(struct halfopen *h, int64_t now_ms)
{
    if (h->count == 0 || now_ms < h->first_until)
        return -1;
    h->first_until = INT64_MAX;
    for (int fd = 0; fd < POLLSET_MAX; fd++) {
        if (h->until[fd] == 0)
            continue;
        if (h->until[fd] < h->first_until)
            h->first_until = h->until[fd];
        if (h->until[fd] <= now_ms)
            return fd;
    }
    return -1;
}
