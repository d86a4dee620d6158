// SPDX-License-Identifier: Apache-2.0
// The search of a guest's console for the reason of the guest's end.
#include "sandbox-backend/drivers/microvm/qemu/console.h"

#include <string.h>

#include "sandbox-backend/drivers/host/childlog.h"

#define PANIC_SHOWN_MAX 160

// Use the first match: the guest kernel repeats the reason in the line that ends the trace.
char *console_panic(const char *text, size_t len)
{
    static const char lead[] = "Kernel panic - not syncing: ";
    const char *at = len ? memmem(text, len, lead, sizeof lead - 1) : NULL;
    if (!at)
        return NULL;
    at += sizeof lead - 1;
    return childlog_printable(at, (size_t)(text + len - at), PANIC_SHOWN_MAX);
}
