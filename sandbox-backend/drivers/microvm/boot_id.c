// SPDX-License-Identifier: Apache-2.0
// Which boot of the host this is (random(4), boot_id).
#include "sandbox-backend/drivers/microvm/boot_id.h"

#include <string.h>

#include "sandbox-backend/base/buf.h"
#include "sandbox-backend/base/fd.h"

const char *boot_id(void)
{
    static char known[64]; // it does not change while we run
    struct buf text auto_buf = BUF_INIT;
    if (!known[0] && file_read("/proc/sys/kernel/random/boot_id", 256, &text, NULL) == 0) {
        size_t len = strcspn(buf_str(&text), "\n");
        if (len < sizeof known)
            memcpy(known, buf_str(&text), len);
    }
    return known;
}
